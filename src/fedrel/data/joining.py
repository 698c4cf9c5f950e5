"""A data set with the training sentences of another one added."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import chain

from fedrel.corpus import NA, Instance
from fedrel.data.building import build
from fedrel.data.cache import Say, cached, key_of
from fedrel.data.store import Dataset, iterate
from fedrel.errors import UserError


def joined(own: Dataset, more: Dataset, name: str, say: Say) -> Dataset:
    """`own`, and the sentences of train of `more` (of which `name` is the place) that it does not have. What dev or
    test judge by stays out: their sentences, and but for gold labels their pairs. UserError if `more` is of another
    kind.
    """
    if (own.has_pairs, own.has_na) != (more.has_pairs, more.has_na):
        raise UserError(
            f"{name}: of another kind than the data it is added to (plain texts, or pairs without relation)"
        )
    if own.held or own.held_out:
        raise UserError("data.more adds to the text of one holder, and here every platform has a folder of its own")
    added = [*_added(own, more)]
    left_out = len(more.train) - len(added)
    kept_apart = f"; {left_out:,} are known already, or dev or test has their pair" if left_out else ""
    note = f"{len(added):,} sentences of {name} were added to train{kept_apart}"
    make = partial(
        build,
        splits={
            "train": lambda: chain(iterate(own, own.train), added),
            "dev": lambda: iterate(own, own.dev),
            "test": lambda: iterate(own, own.test),
        },
        relations=[it for it in own.relations if not (it == NA and own.has_na)],
        notes=[*own.notes, *more.notes, note],
        na=own.has_na,
        has_pairs=own.has_pairs,
        gold=own.gold,
        passed_over=own.passed_over,
        overlap_of_facts=True,
    )
    key = key_of("joined", json.dumps([own.folder.name, more.folder.name, name]))
    return cached(key, make, f"adding {name}", say)


def _added(own: Dataset, more: Dataset) -> Iterator[Instance]:
    judging = [it for split in (own.dev, own.test) for it in iterate(own, split)]
    texts = {tuple(it.tokens) for it in judging}
    pairs = set() if own.gold or not own.has_pairs else {_pair(it) for it in judging}
    known = {_content(it) for it in iterate(own, own.train)}
    for it in iterate(more, more.train):
        if tuple(it.tokens) not in texts and _pair(it) not in pairs and _content(it) not in known:
            yield it


def _pair(it: Instance) -> frozenset[str]:
    return frozenset((it.head.id, it.tail.id))


def _content(it: Instance) -> tuple[object, ...]:
    return (*it.tokens, it.head.start, it.head.end, it.tail.start, it.tail.end)
