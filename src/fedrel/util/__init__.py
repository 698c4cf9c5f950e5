"""Helpers that know nothing about relation extraction: files, processes, seeds, caches, timing.

Import them from their modules: `fedrel.util.seeds` needs torch, the others do without.
"""

__all__: list[str] = []
