"""The run loop: round after round, as an iterator. Whoever iterates saves, logs, evaluates and stops."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fedrel.protocol.algorithm import Algorithm
from fedrel.protocol.codec import Record
from fedrel.protocol.round import Exchange, drive
from fedrel.protocol.sampling import Sampler
from fedrel.protocol.site import Site


@dataclass(frozen=True)
class Completed:
    """A round that is over."""

    number: int  # from 0
    cohort: list[str]
    state: Record  # the server's, after the round
    seconds: float


def run(
    algorithm: Algorithm, exchange: Exchange, sampler: Sampler, hub: Site, state: Record, rounds: range
) -> Iterator[Completed]:
    """Goes on from `state`; starting later in `rounds` than 0 resumes, bit for bit."""
    for number in rounds:
        begin = time.perf_counter()
        cohort = sampler.cohort(number)
        flow = algorithm.round(replace(hub, round=number), state, cohort)
        state = drive(flow, exchange, number, algorithm.model(state), hub.layout)
        yield Completed(number, cohort, state, time.perf_counter() - begin)
