"""Scores of a trained model, every one under its exact name."""
