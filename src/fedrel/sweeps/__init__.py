"""Many runs: comparisons of methods, and searches for settings."""

from fedrel.sweeps.comparison import Comparison
from fedrel.sweeps.comparison import read as read_comparison
from fedrel.sweeps.tables import comparison_table, summarise
from fedrel.sweeps.tuning import Tuning
from fedrel.sweeps.tuning import read as read_tuning

__all__ = ["Comparison", "Tuning", "comparison_table", "read_comparison", "read_tuning", "summarise"]
