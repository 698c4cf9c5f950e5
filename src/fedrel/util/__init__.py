"""Helpers that know nothing about relation extraction: files, processes, seeds, caches, timing, plug-ins.

Import them from their modules.
"""

__all__: list[str] = []
