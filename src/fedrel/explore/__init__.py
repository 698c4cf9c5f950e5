"""A web page on one's own machine where extracted facts can be searched, filtered, looked at and exported.

`fedrel.explore.server` needs the `review` extra.
"""

from fedrel.explore.index import Filter, Index

__all__ = ["Filter", "Index"]
