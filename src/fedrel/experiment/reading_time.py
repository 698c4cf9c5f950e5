"""Tells a person that sentences are being read by a frozen encoder, and how long that will take."""

from __future__ import annotations

import time
from collections.abc import Callable

_PATIENT = 1.0  # seconds until an estimate is made
_LONG = 2.0  # seconds that are worth a line


def reading_watcher(tick: Callable[[str], None], say: Callable[[str], None]) -> Callable[[int, int], None]:
    """A function to call with the sentences read so far and their number: it shows both, and says once how long it
    will take where that is long.
    """
    begun: dict[int, float] = {}
    told: list[bool] = []

    def watch(done: int, all_: int) -> None:
        now = time.monotonic()
        since = begun.setdefault(all_, now)
        tick(f"reading sentence {done:,} of {all_:,}")
        if not told and now - since > _PATIENT:
            left = (now - since) * (all_ - done) / done
            if left > _LONG:
                told.append(True)
                say(f"the pretrained encoder reads {all_:,} sentences, each once: about {left:,.0f} s")

    return watch
