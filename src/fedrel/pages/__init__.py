"""What the web pages on one's own machine share: who is let in, what a browser is told to refuse, how they are served.

`fedrel.pages.site` needs the `review` extra.
"""

from fedrel.pages.access import Access

__all__ = ["Access"]
