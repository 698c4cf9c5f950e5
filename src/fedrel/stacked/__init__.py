"""Stacked training: several platforms train as one program, their weights stacked along a platform axis."""

__all__: list[str] = []  # nothing here is for other packages to build on
