"""Compiled loops: what makes training on a CPU fast, and the one switch that turns compilation off."""
