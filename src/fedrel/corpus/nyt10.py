"""The original NYT10 format, in which GIDS comes too: head id, tail id, head name, tail name, relation, sentence,
###END###, between tabs.

    m.01	m.02	ann_lee	bonn	/people/person/place_of_birth	ann_lee was born in bonn . ###END###

The sentence is split into tokens by blanks; an entity's name is joined with underscores, in the sentence too. Where it
is not a token, as in some rows of GIDS, it is looked for in any case and without regard to punctuation and underscores,
and what else its tokens hold ("(Bonn)," or "Bonn-based") becomes tokens of its own. A row with an entity that is still
not found is broken.
"""

import re
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path

from fedrel.corpus.checks import check_length
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample, no_header
from fedrel.corpus.lines import each_row
from fedrel.corpus.tokens import token_span
from fedrel.corpus.types import Instance, Mention, Skipped
from fedrel.errors import UserError

_END = "###END###"
_LONGEST_NAME = 200  # characters of a name that is looked for in other spellings
_TOKEN = re.compile(r"[^ ]+")
_WORD = re.compile(r"[^\W_]+")

Span = tuple[int, int]


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place, file:line. Broken rows are counted."""
    yield from each_row(path, skip, _instance)


def _instance(line: str, where: str) -> Instance:
    columns = line.split("\t")
    if len(columns) < 6:
        raise UserError(f"{where}: {len(columns)} columns where 6 are needed (is the file cut off?)")
    head_id, tail_id, head_name, tail_name, relation = (column.strip() for column in columns[:5])
    sentence = " ".join(columns[5:])
    if _END not in sentence:
        raise UserError(f"{where}: the sentence does not end with {_END} (is the file cut off?)")
    tokens = sentence.replace(_END, " ").split()
    check_length(len(tokens), where)
    if not (head_id and tail_id and head_name and tail_name and relation):
        raise UserError(f"{where}: an entity or the relation has no name")
    names = ["_".join(name.split()) for name in (head_name, tail_name)]
    if all(name in tokens for name in names):
        head, tail = ((place := tokens.index(name), place + 1) for name in names)
    else:
        tokens, (head, tail) = _located(" ".join(tokens), names, where)
    return Instance(tokens, Mention(head_id, *head), Mention(tail_id, *tail), relation)


def _located(text: str, names: list[str], where: str) -> tuple[list[str], list[Span]]:
    """The tokens, and those of each name."""
    spans = [_find(text, name, where) for name in names]
    cuts = sorted({0, len(text), *(place for span in spans for place in span)})
    pieces = [
        (start + match.start(), start + match.end())
        for start, end in pairwise(cuts)
        for match in _TOKEN.finditer(text[start:end])
    ]
    begins, ends = [begin for begin, _ in pieces], [end for _, end in pieces]
    return [text[begin:end] for begin, end in pieces], [token_span(begins, ends, *span, where) for span in spans]


def _find(text: str, name: str, where: str) -> Span:
    """Where the name stands in the text. It is one token, except where a name inside it was joined instead
    (`los_angeles dodgers` for los_angeles_dodgers, which is then found part by part), or where it is written in another
    way.
    """
    found = _whole(text, name) or _parts(text, name) or _anyhow(text, name)
    if not found:
        raise UserError(
            f'{where}: the entity "{shortened(name)}" is not in the sentence; write its name as the sentence has it, '
            "with _ for blanks, or remove the row"
        )
    return found


def _whole(text: str, name: str) -> Span | None:
    place = f" {text} ".find(f" {name} ")
    return None if place < 0 else (place, place + len(name))


def _parts(text: str, name: str) -> Span | None:
    """All of the tokens that the parts of the name are in."""
    found = _whole(text.replace("_", " "), name.replace("_", " "))
    if not found:
        return None
    start, end = text.rfind(" ", 0, found[0]) + 1, text.find(" ", found[1])
    return start, len(text) if end < 0 else end


def _anyhow(text: str, name: str) -> Span | None:
    """The words of the name, in any case and with anything but letters and digits between them; of a joined name that
    they are in, all.
    """
    wanted = "".join(word.casefold() for word in _WORD.findall(name))
    if not 0 < len(wanted) <= _LONGEST_NAME:
        return None
    matches = list(_WORD.finditer(text))
    words = [match[0].casefold() for match in matches]
    places = list(accumulate(map(len, words), initial=0))  # of each word, the words being written end to end
    number_at = {place: number for number, place in enumerate(places)}
    whole = "".join(words)
    for first, place in enumerate(places[:-1]):
        after = number_at.get(place + len(wanted))
        if after is not None and whole.startswith(wanted, place):
            return _with_joined(text, matches[first].start(), matches[after - 1].end())
    return None


def _with_joined(text: str, start: int, end: int) -> Span:
    """A span and what underscores join to it."""
    while start and (text[start - 1] == "_" or text[start - 1].isalnum()):
        start -= 1
    while end < len(text) and (text[end] == "_" or text[end].isalnum()):
        end += 1
    return start, end


def _by_content(sample: Sample) -> str | None:
    """A file without the end mark whose extension fits is taken for a damaged one: the reader says where."""
    count, ended = len(sample.columns), _END in sample.lines[0]
    if count >= 6 and (ended or (sample.suffix == ".txt" and " " in sample.columns[5])):
        return f"{count} columns between tabs{f', {_END}' if ended else ''}"
    return None


FORMAT = Format(
    what=f"six columns between tabs, and {_END}", sentences=read, by_content=_by_content, header_rows=no_header
)
