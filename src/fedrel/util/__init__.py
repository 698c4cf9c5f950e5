"""Helpers that know nothing of relation extraction: files, processes, seeds, caches, timing."""
