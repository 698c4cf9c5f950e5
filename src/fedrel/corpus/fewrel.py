"""FewRel: one JSON object with a list of sentences for each relation.

    {"P19": [{"tokens": ["Ann", "grew", "up", "in", "Bonn"], "h": ["ann", "Q1", [[0]]], "t": ["bonn", "Q2", [[4]]]}],
     "P26": […]}

An entity is its name, its id in Wikidata (in UMLS, in val_pubmed.json) and the tokens of each of its mentions, of which
the first counts. An id that is the name again, as in val_semeval.json, is none. The relations of train_wiki.json and
val_wiki.json, 64 and 16 with 700 sentences each, differ; names of relations are in pid2name.json, which is not read.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.json_rows import tokens_in
from fedrel.corpus.json_stream import members
from fedrel.corpus.lines import begins_with
from fedrel.corpus.types import Instance, Mention, Skipped
from fedrel.errors import UserError

_BEGINNING = re.compile(r'\s*\{\s*"[^"]*"\s*:\s*\[\s*\{\s*"(?:tokens|h|t)"\s*:')


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place: the file, the relation, and the number of the sentence among those of it. A
    sentence that cannot be read is reported as broken.
    """
    if not begins_with(path, b"{"):
        raise UserError(
            f'{path}: not a JSON object such as {{"P19": [sentences]}}; sentences without a relation, as in '
            "pubmed_unsupervised.json, cannot be trained on"
        )
    for relation, number, _, sentence in members(path):
        where = f"{path}: {shortened(relation) or 'no name'}, sentence {number or 1}"
        try:
            instance = _instance(sentence, relation.strip(), where)
        except UserError as error:
            skip.bad(error, where)
        else:
            yield where, instance


def _instance(sentence: Any, relation: str, where: str) -> Instance:
    if isinstance(sentence, UserError):
        raise sentence
    if not isinstance(sentence, dict):
        raise UserError(f'{where}: not a JSON object with "tokens", "h" and "t"')
    if not relation:
        raise UserError(f"{where}: the relation has no name")
    tokens = tokens_in(sentence.get("tokens"), "tokens", where)
    head, tail = (_mention(sentence.get(side), len(tokens), side, where) for side in ("h", "t"))
    return Instance(tokens, head, tail, relation)


def _mention(entity: Any, size: int, side: str, where: str) -> Mention:
    match entity:
        case [str(name), str(identity), [[*places], *_]] if places and all(type(place) is int for place in places):
            start, last = min(places), max(places)
        case _:
            raise UserError(f'{where}: "{side}" must be a name, an id and the tokens: ["ann", "Q1", [[0, 1]]]')
    if not 0 <= start <= last < size:
        raise UserError(f'{where}: the tokens of "{side}" lie outside of the {size} of the sentence; they count from 0')
    return Mention("" if identity == name else identity.strip(), start, last + 1)


def _by_content(sample: Sample) -> str | None:
    return "a JSON object of relations" if _BEGINNING.match("".join(sample.lines)) else None


FORMAT = Format(
    what='FewRel: a JSON object of relations, each with sentences of "tokens", "h" and "t"',
    sentences=read,
    gold=True,
    by_content=_by_content,
    extensions=(".json",),
    infixes=("_wiki",),
    training_file="train_wiki.json, train.json",
)
