"""TACRED, TACREV and Re-TACRED: a JSON array of sentences, or one object a line.

    [{"id": "e1", "docid": "d1", "relation": "no_relation", "token": ["Ann", "met", "Bo"],
      "subj_start": 0, "subj_end": 0, "obj_start": 2, "obj_end": 2, "subj_type": "PERSON", "obj_type": "PERSON"}, …]

Ends count: "subj_end" is the last token of the subject, which is the head. Entities have types and no ids. Tokens stay
as they are, -LRB- too; "stanford_pos" and the like are not read. AGGCN's SemEval-2010 Task 8 is written so, without
"docid" and types. TACRED has 68,124, 22,631 and 15,509 sentences in train, dev and test, Re-TACRED 58,465, 19,584 and
13,418.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedrel.corpus.format import Format, Sample
from fedrel.corpus.json_rows import EXTENSIONS, name_of, shown_keys, tokens_in, type_of
from fedrel.corpus.lines import each_object
from fedrel.corpus.types import Instance, Mention, Skipped
from fedrel.corpus.unlabelled import without_key
from fedrel.errors import UserError

_SIDES = ("subj", "obj")


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place. A row that cannot be read is reported as broken."""
    yield from each_object(path, skip, _instance)


def _instance(row: dict[str, Any], where: str) -> Instance:
    relation = row.get("relation")
    if not isinstance(relation, str) or not relation.strip():
        raise UserError(f'{where}: "relation" is missing or no text; write no_relation where there is none')
    tokens = tokens_in(row.get("token", row.get("tokens")), "token", where)
    head, tail = (_mention(row, side, len(tokens), where) for side in _SIDES)
    name = name_of(row.get("docid"), "")
    return Instance(tokens, head, tail, relation.strip(), source=name, document=name)


def _mention(row: dict[str, Any], side: str, size: int, where: str) -> Mention:
    start, last = row.get(f"{side}_start"), row.get(f"{side}_end")
    if type(start) is not int or type(last) is not int:
        raise UserError(f'{where}: "{side}_start" and "{side}_end" must be whole numbers, the first and the last token')
    if not 0 <= start <= last < size:
        raise UserError(
            f'{where}: "{side}_start" and "{side}_end" lie outside of the {size} tokens, or are in the wrong order; '
            "they count from 0"
        )
    return Mention("", start, last + 1, type_of(row.get(f"{side}_type")))


def _by_content(sample: Sample) -> str | None:
    return 'JSON with "subj_start"' if "subj_start" in shown_keys(sample) else None


FORMAT = Format(
    what='TACRED: JSON with "token", "subj_start", "obj_start" and "relation"',
    sentences=read,
    gold=True,
    unlabelled=without_key("relation"),
    keys=(frozenset(("token", "subj_start", "subj_end", "obj_start", "obj_end", "relation")),),
    by_content=_by_content,
    extensions=EXTENSIONS,
    infixes=("_rev",),  # TACREV's dev_rev.json and test_rev.json
)
