"""Compiled loops: what makes training on a CPU fast, and the one switch that turns compilation off."""

__all__: list[str] = []  # nothing here is for other packages to build on
