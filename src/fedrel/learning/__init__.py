"""Named tensors, the model, and the one training loop. Needs torch and numpy alone."""
