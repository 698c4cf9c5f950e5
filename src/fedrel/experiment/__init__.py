"""One run: set-up, rounds, evaluation, the folder it leaves, and the saved model."""
