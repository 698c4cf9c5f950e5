"""Data sets from files, as the tests of `fedrel.data.loading` load them."""

from pathlib import Path

import pytest

from fedrel.config import Data
from fedrel.corpus import Instance
from fedrel.data import loading
from fedrel.data.store import Dataset, iterate
from fedrel.errors import UserError
from tests.instances import sentences, write


def load(path: Path, source="opennre", **more) -> tuple[Dataset, list[str]]:
    told: list[str] = []
    dataset = loading.load(Data(source=source, path=str(path), **more), say=told.append)
    return dataset, [*told, *dataset.notes]


def refusal(path: Path, **more) -> str:
    with pytest.raises(UserError) as caught:
        load(path, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def all_of(dataset: Dataset) -> dict[str, list[Instance]]:
    return {name: list(iterate(dataset, getattr(dataset, name))) for name in ("train", "dev", "test")}


def pairs(instances):
    return {(it.head.id, it.tail.id) for it in instances}


def whole(folder: Path, *, mark="") -> Path:
    """A good data set."""
    for name in ("train", "dev", "test"):
        write(folder / f"{name}.jsonl", sentences(8, prefix=f"{mark}{name}"))
    return folder


def part(path: Path, *relations: str, held_out=(), **more) -> Dataset:
    return loading.load_part(Data(source="opennre", **more), path, relations=relations, held_out=held_out)


def public(path: Path, *relations: str) -> Dataset:
    return loading.load_public(Data(source="opennre"), path, relations=relations)
