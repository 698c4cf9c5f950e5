"""From words to packed tensors."""
