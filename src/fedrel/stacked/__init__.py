"""Stacked training: several platforms train as one program, their weights stacked along a platform axis."""
