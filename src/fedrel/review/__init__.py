"""A web page on a platform's own machine where its staff judge predictions.

`fedrel.review.server` needs the `review` extra.
"""

from fedrel.review.queue import Item, Queue, Standing
from fedrel.review.queue import build as build_queue

__all__ = ["Item", "Queue", "Standing", "build_queue"]
