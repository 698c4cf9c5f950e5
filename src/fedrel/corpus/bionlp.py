"""BioNLP shared tasks: NAME.txt, its entities in NAME.a1, and what is to be found in NAME.a2 or NAME.rel.

    a1   T1	Protein 0 4	Zinx
    a2   T3	Negative_regulation 5 10	stops
         E1	Negative_regulation:T3 Theme:T2 Cause:T1
    rel  R1	Protein-Component Arg1:T1 Arg2:T4

`fedrel.corpus.standoff` says how the lines are read. R lines are relations, in the order of their arguments unless the
roles tell. So are two kinds of events, named after their type: one with a theme and a cause that are both entities
goes from the cause to the theme, whatever its other arguments (sites); one without a trigger and with two arguments
that are entities (SeeDev) goes from the first to the second. Other events are left out and counted.

Triggers of events are no entities; nor are the titles and paragraphs that Bacteria Biotopes marks. A text without .a2
and .rel, as in test data, has no relations marked.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.checks import EMPTY, files, head_and_tail, renamed, whole_text
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, same_stem
from fedrel.corpus.lines import first_line
from fedrel.corpus.standoff import JOINS_EVENT, Joined, Notes, joined, notes_of, placed
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError

_ANSWERS = (".a2", ".rel")
_EVENT = re.compile(r"E\S*\t([^\s:]+)(?::(\S+))?((?: +[^\s:]+:\S+)*)\s*(?:\t.*)?")
_STANDOFF = re.compile(r"[TREN*]\S*\t")  # how a line of these files begins
_LAYOUT = ("Title", "Paragraph")


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of a folder, or of one text with its annotations. Empty texts are skipped."""
    texts, *rest = (
        renamed(files(path, suffix), lambda name: name.with_suffix("").as_posix())
        for suffix in (".txt", ".a1", *_ANSWERS)
    )
    for notes in rest:
        for name, file in notes.items():
            if name not in texts:
                raise UserError(f"{file}: there is no {file.with_suffix('.txt').name} beside it; add the text")
    if not texts:
        raise UserError(f"{path}: no .txt file here; BioNLP keeps NAME.txt, NAME.a1 and NAME.a2 side by side")
    for name, file in texts.items():
        try:
            document = _document(name, file, [notes[name] for notes in rest if name in notes], skip)
        except UserError as error:
            skip.bad(error, str(file))
            continue
        if document.text.strip():
            yield document
        else:
            skip(str(file), EMPTY)


def _document(name: str, file: Path, lines: list[Path], skip: Skipped) -> Document:
    text = whole_text(file)
    if not lines:
        return Document(name, text.replace("\r\n", "\n"), where=str(file))
    notes = notes_of(lines, "BioNLP standoff", skip)
    events = list(_events(notes, skip))
    triggers = {trigger for _, _, trigger, _ in events if trigger}
    text, marked = placed(text, notes, skip)
    for key in [key for key, it in marked.items() if it.type in _LAYOUT]:
        skip(notes.entities[key].where, "the annotation is a title or a paragraph, not an entity")
        notes.lost.add(key)
        del marked[key]
    stated = [it for event in events if (it := _relation(*event, triggers, skip))]
    for it in notes.relations:
        if triggers & {it.head, it.tail}:
            skip(it.where, JOINS_EVENT)
        else:
            stated.append(it)
    kept = {key: it for key, it in marked.items() if key not in triggers}
    relations = (
        tuple(joined(stated, kept, notes.lost, skip)) if any(it.suffix.lower() in _ANSWERS for it in lines) else None
    )
    return Document(name, text, tuple(kept.values()), relations, str(file))


def _events(notes: Notes, skip: Skipped) -> Iterator[tuple[str, str, str, list[tuple[str, str]]]]:
    """Place, type, trigger (empty: none) and arguments, role and key, of each event that can be read."""
    for where, line in notes.events:
        if match := _EVENT.fullmatch(line):
            role_and_key = (argument.split(":", 1) for argument in match[3].split())
            yield where, match[1], match[2] or "", [(role, key) for role, key in role_and_key]
        else:
            words = f'{where}: not an event such as Regulation:T3 Theme:T2 Cause:T1: "{shortened(line)}"'
            skip.bad(UserError(words), where)


def _relation(
    where: str, type_: str, trigger: str, arguments: list[tuple[str, str]], triggers: set[str], skip: Skipped
) -> Joined | None:
    """What an event says of two entities, if it does."""
    ends: list[str] = []
    if trigger:
        roles = [(role.rstrip("0123456789"), key) for role, key in arguments]
        causes, themes = ([key for role, key in roles if role == name] for name in ("Cause", "Theme"))
        ends = [*causes, *themes] if len(causes) == len(themes) == 1 else []
    elif len(arguments) == 2:
        ends = [*head_and_tail(arguments[0], arguments[1])]
    if not ends:
        skip(where, "the relation is an event that does not join two entities")
    elif triggers & {*ends}:
        skip(where, JOINS_EVENT)
    else:
        return Joined(where, ends[0], type_, ends[1])
    return None


def _by_name(path: Path) -> bool:
    """Relations are in .rel files in i2b2's corpus, too: what they begin with tells them apart."""
    suffix = path.suffix.lower()
    return suffix in (".a1", ".a2") or (suffix == ".rel" and _STANDOFF.match(first_line(path)) is not None)


FORMAT = Format(
    what="BioNLP shared tasks: a text, its .a1 and its .a2 or .rel file",
    documents=read,
    gold=True,
    by_name=_by_name,
    extensions=(".txt",),
    files=same_stem,
)
