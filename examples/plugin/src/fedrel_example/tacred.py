"""TACRED, as somebody else's package would add it: all that fedrel has to know of a format, in one file.

    [{"id": "e1", "token": ["Ann", "met", "Bo"], "subj_start": 0, "subj_end": 0, "obj_start": 2, "obj_end": 2,
      "subj_type": "PERSON", "obj_type": "PERSON", "relation": "no_relation"}, …]

Ends count: "subj_end" is the last token of the subject. Entities have no ids, so every row is a pair of its own.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedrel.corpus import NA, Format, Instance, Mention, Sample, Skipped
from fedrel.errors import UserError


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    try:
        rows = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a JSON array ({error})") from None
    if not isinstance(rows, list):
        raise UserError(f"{path}: not a JSON array")
    for number, row in enumerate(rows, 1):
        where = f"{path}: row {number}"
        try:
            yield where, _instance(row)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{where}: not a row of TACRED ({error!r})") from None


def _instance(row: dict[str, Any]) -> Instance:
    relation = NA if row["relation"] == "no_relation" else str(row["relation"])
    return Instance(list(row["token"]), _mention(row, "subj"), _mention(row, "obj"), relation)


def _mention(row: dict[str, Any], side: str) -> Mention:
    start, end = row[f"{side}_start"], row[f"{side}_end"] + 1
    if not 0 <= start < end <= len(row["token"]):
        raise ValueError(f"{side}_start and {side}_end lie outside of the sentence")
    return Mention(f"{row['id']}#{side}", start, end, row.get(f"{side}_type", ""))


def _by_content(sample: Sample) -> str | None:
    beginning = "".join(sample.lines)
    return "a JSON array with subj_start" if beginning.startswith("[") and '"subj_start"' in beginning else None


FORMAT = Format(
    what="TACRED: a JSON array of sentences with subj_start, obj_start and relation",
    sentences=read,
    gold=True,
    by_content=_by_content,
    extensions=(".json",),
)
