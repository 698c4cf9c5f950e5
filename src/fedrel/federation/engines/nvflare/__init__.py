"""NVIDIA FLARE carries the messages of a real federation; nothing outside this package knows of it."""
