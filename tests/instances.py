"""Labelled sentences for tests: some by hand, some by Hypothesis with everything that text may hold."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from hypothesis import strategies as st

from fedrel.corpus import NA, Instance, Mention, Skipped, opennre
from fedrel.corpus.format import Placed, Reader

Item = TypeVar("Item")

ODD = [
    "",
    " ",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\0",
    "\x0b",
    "\x1c",
    "\x85",
    "\u2028",
    "\ufeff",
    "e\u0301",
    "👩‍🚀",
    '"',
    "\\",
    "_",
]


def sentence(head="Q1", tail="Q2", relation="r", words=("a", "met", "b", "."), source="", expressed=None) -> Instance:
    return Instance(list(words), Mention(head, 0, 1), Mention(tail, 2, 3), relation, source, expressed)


def sentences(pairs: int, *, prefix="", each=2) -> list[Instance]:
    """Every other pair stands in a fact; no two prefixes share a pair."""
    return [
        sentence(
            f"{prefix}h{pair}",
            f"{prefix}t{pair}",
            NA if pair % 2 else f"r{pair % 4}",
            ("x", f"w{n}", "y", f"{prefix}{pair}"),
        )
        for pair in range(pairs)
        for n in range(each)
    ]


def write(path: Path, instances: Iterable[Instance]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(opennre.lines(instances)), encoding="utf-8", newline="")
    return path


def items(read: Reader[Placed[Item]], path: Path, skip: Skipped | None = None) -> Iterator[Item]:
    """What a reader of rows yields, without the places."""
    return (item for _, item in read(path, Skipped() if skip is None else skip))


def row(**changes: object) -> str:
    """A good line of JSON with some fields replaced; None removes a field."""
    fields: dict[str, object] = {
        "text": "Ann was born in Bonn .",
        "h": {"id": "Q1", "name": "Ann", "pos": [0, 3]},
        "t": {"id": "Q2", "name": "Bonn", "pos": [16, 20]},
        "relation": "born_in",
    }
    return json.dumps({key: value for key, value in (fields | changes).items() if value is not None})


# Whatever JSON may hold where something else is wanted.
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
words = st.text(max_size=6) | st.sampled_from(ODD)
ids = (st.text(min_size=1, max_size=6) | st.sampled_from(["Q1", "Q2", "a\tb", "a\nb", "\u2028x"])).filter(str.strip)

relations = ids | st.just(NA)


@st.composite
def instances(draw, ids=ids, relations=relations) -> Instance:
    tokens = draw(st.lists(words, min_size=1, max_size=6))

    def mention() -> Mention:
        start = draw(st.integers(0, len(tokens) - 1))
        return Mention(draw(ids), start, draw(st.integers(start + 1, len(tokens))))

    return Instance(tokens, mention(), mention(), draw(relations), draw(words), draw(st.none() | st.booleans()))
