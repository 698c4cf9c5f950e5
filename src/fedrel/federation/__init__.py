"""Rounds as generators, the codec, checkpoints, and the engines that carry messages."""
