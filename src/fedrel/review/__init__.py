"""A web page on a platform's own machine where its staff judge predictions.

`fedrel.review.server` needs the `review` extra.
"""

from fedrel.review.questions import Item, Questions
from fedrel.review.queue import Queue, Standing

__all__ = ["Item", "Questions", "Queue", "Standing"]
