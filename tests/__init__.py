"""Tests. Compiled loops are kept in one place for all their processes, confined ones included."""

import os
from pathlib import Path

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent.parent / ".numba"))
