"""The words for how runs and platforms are doing, alike in files, in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ALIVE = ("starting", "running", "waiting")
ENDED = ("done", "failed", "stopped")
QUEUED = "queued"
INTERRUPTED = "interrupted"  # a run in one process that ended without saying so
STATES = (QUEUED, *ALIVE, *ENDED, INTERRUPTED)

# Of a platform: asked right now; asked long ago; took part in the last round; sat it out; its reply was left out;
# it refuses, or what it sent was refused; it could not answer; it is not connected
WORKING, LATE, ACTIVE, IDLE, LEFT_OUT, REFUSED, FAILED, GONE = (
    *("working", "late", "active", "idle"),
    *("left out", "refused", "failed", "gone"),
)
PLATFORM_STATES = (GONE, REFUSED, FAILED, LATE, LEFT_OUT, WORKING, ACTIVE, IDLE)  # what needs a look first
NO_ANSWER = "no answer by the deadline"
REFUSES = "the platform refuses"  # begins the reason of a failure, as "refused: " does where a reply was


def rounds_done(status: Mapping[str, Any]) -> str:
    """How far a run has come: "12 of 100", "27" once it has ended, "not started"."""
    done, most = status.get("round") or 0, status.get("rounds") or 0
    if status.get("state") in ENDED:
        return str(done)
    return f"{done} of {most}" if most else str(done) if done else "not started"
