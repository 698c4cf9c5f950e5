"""What a finished run looks like: charts, figures, and a self-contained page with all of them."""

from fedrel.report.figures import bars_figure, pr_figure, rounds_figure, similarity_figure
from fedrel.report.page import write_report

__all__ = ["bars_figure", "pr_figure", "rounds_figure", "similarity_figure", "write_report"]
