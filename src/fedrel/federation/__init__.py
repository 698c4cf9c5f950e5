"""Federations across machines: kits, signed messages, nodes, and their carriers (HTTPS and NVIDIA FLARE)."""
