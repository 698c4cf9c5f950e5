"""Federations across machines: kits, signed messages, nodes, and their carriers (HTTPS and NVIDIA FLARE)."""

__all__: list[str] = []  # nothing here is for other packages to build on
