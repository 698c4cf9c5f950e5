"""`python -m benchmarks.secure`: what secure sums cost, in bytes and seconds, as JSON.

A coordinator and its platforms add up vectors in one process, with a tenth of the platforms (at least one) dropping out
in each exchange after the offers; of 100 platforms, masks are shared in a ring. Seconds of a platform are the mean over
`--sampled` of them: the others' masked numbers are made in the same way, so they can be left out where only the time
matters. With as many samples as platforms the sum is opened and compared.

Everything long is done by all cores, or by as many as `--cores` says, so seconds are given twice: those that pass and,
as "cpu", those that cores work, which say more on a machine that is busy with other things.

Bytes are those of the fields themselves, without the headers of messages; "times" is how many times the bytes of the
plain update in 32 bits a platform sends. "tags" and "follow" are the tags of a platform's numbers, and those of the sum
that it is told. "longer_round_of_10_s" is all of it, a platform's seconds and the coordinator's one after the other, as
a share of a round that trains for 10 s (in truth the coordinator adds while others still send); "longer_on_one_core" is
the same of CPU time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedrel.privacy import tags
from fedrel.privacy.fixed_point import FixedPoint, Words
from fedrel.privacy.masks import add_streams
from fedrel.privacy.secure_sum import Coordinator, Platform, Terms
from fedrel.util.parallel import cores

_SIGNATURE, _OFFER = 64, 3 * 32 + 64
_BOUND = 4.0
_KEY = bytes(32)
TRAINING, MOST_LONGER, MOST_TIMES = 10.0, 0.1, 1.3  # seconds of a round without sums; what sums may cost
Outcome = TypeVar("Outcome")


@dataclass
class Clock:
    """Seconds by what they were for, of all platforms together or of the coordinator: passed, and of CPU time."""

    passed: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)

    def __call__(self, what: str, work: Callable[..., Outcome], *given: Any) -> Outcome:
        begin, begin_cpu = time.perf_counter(), time.process_time()
        outcome = work(*given)
        self.passed[what] = self.passed.get(what, 0.0) + time.perf_counter() - begin
        self.cpu[what] = self.cpu.get(what, 0.0) + time.process_time() - begin_cpu
        return outcome


@dataclass
class Masked:
    """The masked numbers of these platforms, one at a time; those beyond the sampled ones send theirs as they are, so
    that only the time of making them is left out.
    """

    parties: Mapping[str, Platform]
    sent: Mapping[str, Mapping[str, bytes]]
    adding: list[str]
    numbers: Words
    sampled: int
    clock: Clock

    def __iter__(self) -> Iterator[tuple[str, Words]]:
        for place, name in enumerate(self.adding):
            party = self.parties[name]
            if place < self.sampled:
                yield name, self.clock("mask", party.mask, self.sent[name], self.numbers)
            else:
                party.terms = Terms(party.terms.context, 1)  # everything but the long streams
                self.clock("stand-in", party.mask, self.sent[name], np.zeros(1, np.uint32))
                yield name, self.numbers


def measure(size: int, platforms: int, sampled: int) -> dict[str, Any]:
    """One sum of vectors of this size. Raises SystemExit if it is opened and wrong."""
    signing = {f"p{number:03d}": Ed25519PrivateKey.generate() for number in range(platforms)}

    def verify(name: str, message: bytes, signature: bytes) -> bool:
        try:
            signing[name].public_key().verify(signature, message)
            return True
        except InvalidSignature:
            return False

    terms, ours, theirs, masking = Terms(b"benchmark", size), Clock(), Clock(), Clock()
    coordinator = Coordinator(terms, verify=verify)
    parties = {name: Platform(name, terms, sign=key.sign, verify=verify) for name, key in signing.items()}
    values = np.random.default_rng(1).uniform(-1, 1, size).astype(np.float32)
    numbers = masking("encode", FixedPoint(_BOUND, platforms).encode, values)
    found = masking("tags", tags.of, numbers, [], _KEY)
    wrapped = found * np.uint32(platforms)  # no tags of a sum, whose time is the same
    masking("follow", tags.fit, numbers, wrapped, [], _KEY, platforms)
    going = max(1, platforms // 10)  # in every exchange after the offers
    sharing, adding, agreeing, revealing = (list(parties)[going * times :] for times in range(1, 5))

    offered = {name: theirs("offer", party.offer) for name, party in parties.items()}
    roster = ours("offers", coordinator.offers, offered)
    shared = {name: theirs("share", parties[name].share, roster) for name in sharing}
    sent = ours("shares", coordinator.shares, shared)
    stayed = ours("add", coordinator.masked, Masked(parties, sent, adding, numbers, sampled, masking))
    agreed = {name: theirs("agree", parties[name].agree, stayed) for name in agreeing}
    signatures = ours("signatures", coordinator.signatures, agreed)
    revealed = {name: theirs("reveal", parties[name].reveal, signatures) for name in revealing}
    total = ours("open", coordinator.total, revealed)

    whole = sampled >= len(adding)
    if whole and not np.array_equal(total, numbers * np.uint32(len(stayed))):
        raise SystemExit("the sum is wrong")
    shares = sum(len(it) for replies in (shared, revealed) for it in replies[revealing[0]].values())
    up = _OFFER + shares + 4 * (size + tags.count([])) + _SIGNATURE
    passed, cpu = (
        _seconds(*clocks, platforms, min(sampled, len(adding)))
        for clocks in ((ours.passed, theirs.passed, masking.passed), (ours.cpu, theirs.cpu, masking.cpu))
    )
    longer, work = (sum(who["in all"] for who in it.values()) for it in (passed, cpu))
    times = up / (4 * size)
    return {
        "numbers": size,
        "platforms": platforms,
        "stayed": len(stayed),
        "revealed": len(revealing),
        "masks_shared_with": len(coordinator.roster.neighbours(stayed[0])),
        "compared": whole,
        "bytes_up_per_platform": up,
        "times": round(times, 4),
        "times_at_most_1.3": times <= MOST_TIMES,
        "cores": cores(),
        "seconds": passed,
        "cpu": cpu,
        "longer_round_of_10_s": round(longer / TRAINING, 4),
        "longer_on_one_core": round(work / TRAINING, 4),
        "longer_by_at_most_a_tenth": longer / TRAINING <= MOST_LONGER,
    }


def _seconds(
    ours: dict[str, float], theirs: dict[str, float], masking: dict[str, float], platforms: int, sampled: int
) -> dict[str, dict[str, float]]:
    """Of one platform and of the coordinator, by what they were for and in all."""
    platform = {what: it / platforms for what, it in theirs.items()}
    platform |= {what: masking[what] for what in ("encode", "tags", "follow")}
    platform["mask"] = masking["mask"] / sampled
    coordinator = ours | {"add": ours["add"] - sum(masking.get(what, 0.0) for what in ("mask", "stand-in"))}
    return {
        who: {what: round(it, 4) for what, it in {**found, "in all": sum(found.values())}.items()}
        for who, found in (("platform", platform), ("coordinator", coordinator))
    }


def stream_speed() -> float:
    """Bytes of masks, added to numbers in place, for a second of CPU time."""
    total, keys = np.zeros(10**6, np.uint32), [number.to_bytes(32, "big") for number in range(100)]
    add_streams(total, add=keys[:1], subtract=[])
    begin = time.process_time()
    add_streams(total, add=keys, subtract=[])
    return len(keys) * total.nbytes / (time.process_time() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", type=int, nargs="+", default=[10**6, 25 * 10**6])
    parser.add_argument("--platforms", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--sampled", type=int, default=3, help="platforms that are timed; all: the sum is compared")
    parser.add_argument("--cores", type=int, default=cores(), help="use so many of those that this process may use")
    wanted = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: wanted.cores])
    print(json.dumps({"stream_bytes_per_cpu_second": math.floor(stream_speed())}), flush=True)
    for size in wanted.numbers:
        for platforms in wanted.platforms:
            print(json.dumps(measure(size, platforms, wanted.sampled)), flush=True)


if __name__ == "__main__":
    main()
