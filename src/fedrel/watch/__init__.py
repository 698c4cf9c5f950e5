"""A run while it goes on: what is known of it, in one form wherever it comes from, and a page that shows it.

`fedrel.watch.server` needs the `review` extra; the rest needs neither torch nor a network.
"""

from fedrel.watch.folder import RunFolder
from fedrel.watch.view import View

__all__ = ["RunFolder", "View"]
