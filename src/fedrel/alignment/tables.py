"""Reads knowledge bases from tables: entities.tsv, triples.tsv and optionally relations.tsv, or one CSV file."""

import csv
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path

from fedrel.alignment.draft import EMPTY, FURTHER_TYPE, LISTED_TWICE, MALFORMED, Draft
from fedrel.alignment.problems import quoted
from fedrel.corpus import NA
from fedrel.corpus.lines import numbered_lines
from fedrel.errors import UserError

ENTITIES = ("id", "type", "names")
TRIPLES = ("head", "relation", "tail")
CONSTRAINTS = ("relation", "head_type", "tail_type")


def read_entities(path: Path, draft: Draft) -> None:
    """Adds the entities of a TSV file: id, type, and names separated by `|`. An entity on several lines keeps the first
    type and gets all names. Raises UserError for a file without a tab, without an entity, or not in UTF-8.
    """
    base = draft.begin(path)
    for number, (id_, type_, names) in _rows(path, ENTITIES, draft):
        if not id_:
            draft.problems(EMPTY, path, number, "the id is empty")
            continue
        entity = draft.numbers.get(id_)
        if entity is None:
            if not type_:
                draft.problems(EMPTY, path, number, f"{quoted(id_)} has no type")
            entity = draft.add_entity(id_, type_)
        else:
            draft.problems(LISTED_TWICE, path, number, f"{quoted(id_)} is already listed; its first type is used")
        draft.add_names(entity, names, base + number)
    if not draft.numbers:
        raise UserError(f"{path}: no entities; each line needs {_columns(ENTITIES)}, separated by tabs")


def read_triples(path: Path, draft: Draft) -> None:
    """Adds the triples of a TSV file: head, relation, tail. Raises UserError for a file without a tab, without a line,
    or not in UTF-8.
    """
    base = draft.begin(path)
    numbers, relations = draft.numbers, draft.relations
    empty = True
    for number, line in numbered_lines(path):
        empty = False
        # A fast path for the common case, since there are millions of lines; _row handles all others.
        try:
            head, relation, tail = line.split("\t")
            pair = numbers[head] << 32 | numbers[tail]
            draft.relation_of.append(relations[relation])
        except (KeyError, ValueError):
            fields = _row(line, path, number, TRIPLES, draft)
            if fields:
                draft.add_triple(*fields, base + number)
        else:
            draft.pairs.append(pair)
            draft.places.append(base + number)
    if empty:
        raise UserError(f"{path}: no triples; each line needs {_columns(TRIPLES)}, separated by tabs")


def read_constraints(path: Path, draft: Draft) -> None:
    """Adds the type constraints of a TSV file: relation, head type, tail type. A relation may have several lines."""
    for number, (relation, *types) in _rows(path, CONSTRAINTS, draft):
        if relation not in draft.relations:
            what = f"no triple has the relation {quoted(relation)}"
            draft.problems("unknown relation", path, number, what)
        elif unknown := [type_ for type_ in types if type_ not in draft.type_numbers]:
            draft.problems("unknown type", path, number, f"no entity is of type {quoted(unknown[0])}")
        else:
            head, tail = (draft.type_numbers[type_] for type_ in types)
            draft.constraints.add((draft.relations[relation], head, tail))


def _rows(path: Path, columns: tuple[str, str, str], draft: Draft) -> Iterator[tuple[int, tuple[str, str, str]]]:
    for number, line in numbered_lines(path):
        fields = _row(line, path, number, columns, draft)
        if fields:
            yield number, fields


def _row(
    line: str, path: Path, number: int, columns: tuple[str, str, str], draft: Draft
) -> tuple[str, str, str] | None:
    """The three fields of a line; None for the header, and for a line with another number of fields, which is recorded
    as a problem.
    """
    fields = tuple(field.strip() for field in line.split("\t"))
    if len(fields) == 1:
        raise UserError(f"{path}:{number}: no tab in this line; separate {_columns(columns)} by tabs")
    if number == 1 and tuple(field.lower().replace(" ", "_") for field in fields) == columns:
        return None
    if len(fields) != len(columns):
        draft.problems(MALFORMED, path, number, f"{len(fields)} columns where {len(columns)} are needed")
        return None
    return fields[0], fields[1], fields[2]


def _columns(names: tuple[str, str, str]) -> str:
    return f"{names[0]}, {names[1]} and {names[2]}"


def read_csv(path: Path, draft: Draft) -> None:
    """Adds the triples and entities of a CSV file: one triple a row, under a header row with the columns head, relation
    and tail, and optionally head_type, tail_type, head_name and tail_name (several names separated by `|`). Other
    columns are ignored.

    Without name columns, the ids are the names. An entity gets every name that some row gives it, and the first type.
    Raises UserError for a file without these columns or without a triple, and for one that is not CSV in UTF-8.
    """
    base = draft.begin(path)
    reader = csv.reader(_decoded(path), strict=True)
    seen: set[tuple[str, ...]] = set()  # an entity is in many rows, and nearly all of them describe it alike
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        relation_at, ends = _places(header, path)
        for row in reader:
            number = reader.line_num
            if len(row) != len(header):
                if any(map(str.strip, row)):  # not a blank line
                    what = f"{len(row)} columns where the header has {len(header)}"
                    draft.problems(MALFORMED, path, number, what)
                continue
            row.append("")
            (head, *_), (tail, *_) = described = [end(row) for end in ends]
            if head.strip() and tail.strip() and row[relation_at].strip() not in ("", NA):
                for it in described:
                    if it not in seen:
                        seen.add(it)
                        _add_end(*map(str.strip, it), place=base + number, draft=draft)
            draft.add_triple(head.strip(), row[relation_at].strip(), tail.strip(), base + number)
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}: not CSV ({error}); fix the quotes or line ends") from None
    if not draft.numbers:
        raise UserError(f"{path}: no triples; each row needs head, relation and tail, separated by commas")


def _places(header: list[str], path: Path) -> tuple[int, list[Callable[[list[str]], tuple[str, ...]]]]:
    """The column of the relation, and two functions that take (id, type, names) of the head and of the tail from a
    row.
    """
    for needed in TRIPLES:
        if header.count(needed) != 1:
            found = "two columns" if needed in header else "no column"
            raise UserError(f'{path}:1: {found} "{needed}"; the header needs head, relation and tail, with commas')
    place_of = {name: at for at, name in enumerate(header)}
    nowhere = len(header)  # read_csv appends an empty string to every row
    ends: list[Callable[[list[str]], tuple[str, ...]]] = [
        itemgetter(place_of[side], place_of.get(f"{side}_type", nowhere), place_of.get(f"{side}_name", place_of[side]))
        for side in ("head", "tail")
    ]
    return place_of["relation"], ends


def _add_end(id_: str, type_: str, names: str, *, place: int, draft: Draft) -> None:
    """Adds the entity at one end of a triple, or what a row says of it if it is known already."""
    entity = draft.numbers.get(id_)
    if entity is None:
        entity = draft.add_entity(id_, type_)
    elif type_ and draft.type_of[entity] != draft.type_numbers.get(type_):
        if draft.type_of[entity] == draft.type_numbers.get(""):
            draft.type_of[entity] = draft.type_numbers.setdefault(type_, len(draft.type_numbers))
        else:
            what = f"{quoted(id_)} has another type above; its first type is used"
            draft.problems(FURTHER_TYPE, *draft.file_and_line(place), what)
    if names == id_:
        draft.add_name(entity, id_, place)
    else:
        draft.add_names(entity, names, place)


def _decoded(path: Path) -> Iterator[str]:
    """Lines with their line ends, which may be inside quotes. Raises UserError if the file is not readable as UTF-8."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError:
                    raise UserError(f"{path}:{number}: not UTF-8 text; convert the file to UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
