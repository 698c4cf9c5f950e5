"""Labelled sentences as columns in memory-mapped files: loading, partition over platforms, inspection."""
