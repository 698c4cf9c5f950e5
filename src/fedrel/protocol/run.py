"""The run loop: round after round, as an iterator. Whoever iterates saves, logs, evaluates and stops."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fedrel.protocol.codec import Record
from fedrel.protocol.round import Algorithm, Exchange, Site, drive
from fedrel.protocol.sampling import Sampler


@dataclass(frozen=True)
class Round:
    number: int  # from 0
    cohort: list[str]
    state: Record  # the server's, after the round
    seconds: float


def run(
    algorithm: Algorithm, exchange: Exchange, sampler: Sampler, hub: Site, state: Record, rounds: range
) -> Iterator[Round]:
    """Goes on from `state`; starting later in `rounds` than 0 resumes, bit for bit."""
    for number in rounds:
        begin = time.perf_counter()
        cohort = sampler.cohort(number)
        flow = algorithm.round(replace(hub, round=number), state, cohort)
        state = drive(flow, exchange, number)
        yield Round(number, cohort, state, time.perf_counter() - begin)
