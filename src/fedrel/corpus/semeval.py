"""SemEval-2010 Task 8, and KBP37, which has its layout: a numbered sentence, its relation, a comment, a blank line.

    1	"The <e1>spark</e1> started a <e2>fire</e2>."
    Cause-Effect(e1,e2)
    Comment: none

The head is e1 and the tail e2, whichever comes first; the direction is a part of the label, as in the published
evaluations. KBP37 has no comments, and blanks inside its tags. SemEval has 8,000 sentences in TRAIN_FILE.TXT and 2,717
in TEST_FILE_FULL.TXT; TEST_FILE.TXT and TEST_FILE_CLEAN.TXT have no relations and are passed over. KBP37 has 15,917,
1,724 and 3,405 in train, dev and test.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.checks import sentence_tokens
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.lines import numbered_lines
from fedrel.corpus.tokens import token_span
from fedrel.corpus.types import Instance, Mention, Skipped
from fedrel.errors import UserError

_NUMBER = re.compile(r"\s*[0-9]+\s+")
_TAG = re.compile(r"</?e[12]>")
_COMMENT = re.compile(r"\s*comments?\b", re.IGNORECASE)
_FOLDERS = "SemEval2010_task8_*"  # as published, each split lies in one of these


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place, file:line. Sentences that cannot be read are reported as broken rows, and so are
    lines that belong to none.
    """
    for where, sentence, relation in _rows(path, skip):
        try:
            instance = _instance(sentence, relation, where)
        except UserError as error:
            skip.bad(error, where)
        else:
            yield where, instance


def _rows(path: Path, skip: Skipped) -> Iterator[tuple[str, str, str]]:
    """The place of each sentence, the sentence, and the line below it, its relation (empty: there is none)."""
    waiting: tuple[str, str] | None = None  # a sentence whose relation has not come yet
    for number, line in numbered_lines(path, skip):
        where = f"{path}:{number}"
        if _is_sentence(line):
            if waiting:
                yield *waiting, ""
            waiting = where, line
        elif _COMMENT.match(line):
            continue
        elif waiting:
            yield *waiting, line.strip()
            waiting = None
        else:
            skip.bad(UserError(f"{where}: no sentence before this line; a sentence begins with a number"), where)
    if waiting:
        yield *waiting, ""


def _is_sentence(line: str) -> bool:
    return bool(_NUMBER.match(line)) or ("<e1>" in line and not _COMMENT.match(line))


def _instance(line: str, relation: str, where: str) -> Instance:
    if not relation:
        raise UserError(
            f"{where}: no relation below the sentence, such as Cause-Effect(e1,e2) or Other "
            "(TEST_FILE.TXT has none; take TEST_FILE_FULL.TXT)"
        )
    if len(relation.split()) > 1:
        raise UserError(
            f'{where}: "{shortened(relation)}" below the sentence is no relation, such as Cause-Effect(e1,e2)'
        )
    text, head, tail = _marked(line, where)
    tokens, begins, ends = sentence_tokens(text, where)
    return Instance(
        tokens,
        Mention("", *token_span(begins, ends, *head, f"{where}: <e1>")),
        Mention("", *token_span(begins, ends, *tail, f"{where}: <e2>")),
        relation,
    )


def _marked(line: str, where: str) -> tuple[str, tuple[int, int], tuple[int, int]]:
    """The sentence without its number, quotation marks and tags, and what e1 and e2 mark in it."""
    text = _NUMBER.sub("", line, count=1).strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    pieces: list[str] = []
    at: dict[str, int] = {}
    done = length = 0
    for tag in _TAG.finditer(text):
        pieces.append(text[done : tag.start()])
        length += len(pieces[-1])
        done = tag.end()
        if tag[0] in at:
            raise UserError(f"{where}: {tag[0]} is there twice; mark one <e1>…</e1> and one <e2>…</e2>")
        at[tag[0]] = length
    if len(at) != 4:
        raise UserError(f"{where}: a tag is missing; mark one <e1>…</e1> and one <e2>…</e2>")
    plain = "".join(pieces) + text[done:]
    for name in ("e1", "e2"):
        if not plain[at[f"<{name}>"] : at[f"</{name}>"]].strip():
            raise UserError(f"{where}: <{name}> marks no word; put its tags around the entity")
    return plain, (at["<e1>"], at["</e1>"]), (at["<e2>"], at["</e2>"])


def _candidates(folder: Path) -> list[Path]:
    """The files that may be splits, in the folder or, as published, in folders SemEval2010_task8_… in it."""
    files = sorted([*folder.iterdir(), *folder.glob(f"{_FOLDERS}/*")])
    return [it for it in files if it.suffix.lower() in FORMAT.extensions and it.is_file()]


def _is_unlabelled(path: Path) -> bool:
    """Whether a sentence follows directly on the first one, as in TEST_FILE.TXT."""
    lines = [line for _, line in itertools.islice(numbered_lines(path, Skipped()), 2)]
    return len(lines) == 2 and all(_is_sentence(line) and _TAG.search(line) for line in lines)


def _by_content(sample: Sample) -> str | None:
    first = sample.lines[0]
    if _NUMBER.match(first) and len(sample.columns) == 2 and all(tag in first for tag in ("<e1>", "<e2>")):
        return "numbered sentences with <e1> and <e2>"
    return None


FORMAT = Format(
    what="SemEval-2010 Task 8 and KBP37: numbered sentences with <e1> and <e2>, the relation below each",
    sentences=read,
    gold=True,
    by_content=_by_content,
    extensions=(".txt",),
    candidates=_candidates,
    training_file="TRAIN_FILE.TXT, train.txt",
    unlabelled=_is_unlabelled,
)
