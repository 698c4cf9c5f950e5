"""What lines look like that are no prose: markup, JSON, columns, records, tagged tokens.

Each rule asks for what most lines have in common, so that prose with a tab, a `<` or a `Note: …` here and there stays
prose.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

_LINES = 200  # that are looked at
_LONGEST_LINE = 10_000  # characters of each that are looked at
RECORDS = "records with a name before each value"
_WIDE = 4  # columns that are some even in a single line

_BEGINS_AS_XML = re.compile(r"<(?:\?xml\b|!DOCTYPE\b|!--|([A-Za-z][\w:.-]*)(?:\s[^<>]*)?/?>)")
_PAIRED = re.compile(r"<([A-Za-z][\w:.-]*)(?:\s[^<>]{0,200})?>[^<]*</\1>")
# Marks of two entities: <e1>…</e1>, [E1] … [/E1], @GENE$
_MARKED = re.compile(
    r"</?(?:e[12]|subj|obj|head|tail|entity[-_ ]?[12x]?|ent[12]?|arg[12])>|\[/?(?:e[12]|subj|obj)\]|@[A-Z]+\$", re.I
)
_ARRAY = re.compile(r'\[\s*[\[{"]')
_FIELD = re.compile(
    r"\s*(?:[A-Za-z]+[-_ ])?(?:sentence|text|entity|ent|rel|relation|label|type|class|tag|subj|subject|obj|object|head|"
    r"tail|arg|e|id|tokens?)[-_ ]?[12]?(?:[-_ ][A-Za-z0-9]+)?\s*[:=]",
    re.I,
)
_TAG = re.compile(r"O|[BIOESLUM][-_]\S+")  # of a token, in whichever scheme
_NAMED = re.compile(r"\s*[-*#@]?\s*([^\W\d_][^:=：\t]{0,39}?)\s*[:=：]\s*(\S.*)")  # a name and a value, in any language
_MOST_NAMES = 40  # in a record
_LABELLED = re.compile(r"__label__\S")  # fastText
_LITERAL = re.compile(r"[\[({]\s*(['\"]).*[\])}],?\s*")  # a dict, list or tuple as Python prints it
_TIGHT = {  # what separates columns, where prose would have a blank, or nothing at all
    "tabs": re.compile(r"\t"),
    "bars": re.compile(r"\s*\|+\s*"),
    "semicolons": re.compile(r";(?=[^\s\u2e80-\uffff])"),  # Chinese and the like have no blanks
    "commas": re.compile(r"(?<!\d),(?=[^\s\u2e80-\uffff])|,(?=[^\s\d\u2e80-\uffff])"),
}
_BULLET = re.compile(r"[-*•–]|\(?[a-z][.)]", re.I)
_ITEM = re.compile(r"\(?(\d+)[.)]?")
_ITEMS = 20  # of a list that are looked at
_SHORT = 3  # words of a value that may be a label or the name of an entity


def no_prose(text: str) -> str:
    """In a few words, what says that the beginning of a file is no plain text; empty: nothing does."""
    if "\0" in text:
        return "characters that are no text"
    lines = [line[:_LONGEST_LINE] for line in text.split("\n", _LINES)[:_LINES] if line.strip()]
    if not lines:
        return ""
    return next((what for rule in _RULES if (what := rule(lines))), "")


def _json(lines: Sequence[str]) -> str:
    first = lines[0].strip()
    if first[0] == "{" and re.match(r'\{\s*(?:"[^"]*"\s*:|$)', first):
        return "JSON"
    if len(lines) > 1 and all(_LITERAL.fullmatch(line.strip()) for line in lines):
        return "literals of a program"
    if first[0] != "[":
        return ""
    if _ARRAY.match(first) or (first == "[" and lines[1:] and lines[1].strip()[0] in '{["'):
        return "JSON"
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return ""
    return "JSON"


def _xml(lines: Sequence[str]) -> str:
    first = lines[0].strip()
    begins = _BEGINS_AS_XML.match(first)
    if not begins:
        return ""
    closing = sum("</" in line or "/>" in line for line in lines)
    return "XML or HTML" if begins[1] is None or begins[0] == first or closing * 3 >= len(lines) else ""


def _tagged(lines: Sequence[str]) -> str:
    if sum(_LABELLED.match(line.lstrip()) is not None for line in lines) * 2 > len(lines):
        return "a label before each text"
    marked = sum(len(_MARKED.findall(line)) > 1 for line in lines)
    paired = sum(_PAIRED.search(line) is not None for line in lines)
    if marked * 10 >= len(lines) or (paired > 1 and paired * 3 >= len(lines)):
        return "sentences with tags in them"
    return ""


def _columns(lines: Sequence[str]) -> str:
    for name, mark in _TIGHT.items():
        rows = [mark.split(line.strip()) for line in lines]
        count, rows_of_it = Counter(map(len, rows)).most_common(1)[0]
        if count < 2 or rows_of_it * 5 < len(rows) * 4 or (rows_of_it < 2 and count < _WIDE):
            continue
        if not _is_list([row[0].strip() for row in rows if len(row) == count]) or count > 2:
            return f"{count} columns between {name}"
    return ""


def _is_list(first: Sequence[str]) -> bool:
    """Whether lines begin as those of a list: with bullets, or with numbers that count."""
    if all(_BULLET.fullmatch(cell) for cell in first):
        return True
    items = [_ITEM.fullmatch(cell) for cell in first]
    numbers = [int(item[1]) for item in items if item and len(item[1]) < 10]
    return len(numbers) == len(first) and all(one < other for one, other in pairwise(numbers))


def _records(lines: Sequence[str]) -> str:
    fields = [match[0].strip(" \t:=").casefold() for line in lines if (match := _FIELD.match(line))]
    if len(set(fields)) > 1 and len(fields) * 2 >= len(lines):
        return RECORDS
    return RECORDS if _are_records(list(_named_values(lines))) else ""


def first_record(text: str) -> list[str]:
    """The lines of the first of such records: up to a blank line, or until its first name comes again."""
    lines = [line.strip() for line in text.lstrip().split("\n", _LINES)[:_LINES]]
    first, *names = (name for name, _ in _named_values(lines))
    end = next((at for at, name in enumerate(names, 1) if not lines[at] or name == first), len(lines))
    return lines[:end]


def _named_values(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The name and the value of each line; empty ones for a line that has none."""
    for line in lines:
        match = _NAMED.fullmatch(line)
        yield (match[1].casefold(), match[2].strip()) if match else ("", "")


def _are_records(fields: Sequence[tuple[str, str]]) -> bool:
    """Whether lines are records of the same names in the same order, whatever the language. Two people who talk in turn
    are two names, too; so records of two, and a single one, are known by their values.
    """
    names = [name for name, _ in fields]
    size = names.index(names[0], 1) if names[0] in names[1:] else len(names)
    if not 1 < size <= _MOST_NAMES or "" in names or len(set(names[:size])) < size:
        return False
    if any(name != names[place % size] for place, name in enumerate(names)):
        return False
    if size > 2 and len(names) >= 2 * size:
        return True
    if size > 2:
        return bool(within(dict(fields[:size])))
    one, other = ([value for name, value in fields if name == it] for it in names[:2])
    labels, texts = sorted((one, other), key=lambda values: max(map(_words, values)))
    short = all(_words(it) <= _SHORT and it[-1] not in ".?!…" for it in labels)
    return len(other) > 1 and short and min(map(_words, texts)) > _SHORT


def _words(text: str) -> int:
    return len(text.split())


def _tokens(lines: Sequence[str]) -> str:
    rows = [line.split() for line in lines]
    count, rows_of_it = Counter(map(len, rows)).most_common(1)[0]
    if count < 2 or rows_of_it < 4 or rows_of_it * 5 < len(rows) * 4:
        return ""
    columns = list(zip(*(row for row in rows if len(row) == count), strict=True))
    numbered = count > 3 and any(all(cell.isdecimal() for cell in it) for it in columns)
    if numbered or any(all(_TAG.fullmatch(cell) for cell in it) for it in columns[1:]):
        return "a token and its tags in each line"
    return ""


_RULES = (_json, _xml, _tagged, _tokens, _columns, _records)


# --------------------------------------------------------------------------------- names of columns and of keys

_LABELS = frozenset(
    ("label", "labels", "relation", "relation_type", "rel", "gold", "gold_label", "annotations", "spans")
)
_ENDS = (
    *(("head", "tail"), ("h", "t"), ("subject", "object"), ("subj", "obj"), ("subj_start", "obj_start")),
    *(("e1", "e2"), ("ent1", "ent2"), ("entity1", "entity2"), ("entity_1", "entity_2"), ("arg1", "arg2")),
)


def within(fields: Mapping[str, str], text: str = "") -> list[str]:
    """The names of two or more short values that stand in the text, by default the longest value: they are entities
    that are marked in it, in whatever language. One alone is none: a title may well be in its text.
    """
    text = text or max(fields.values(), key=len, default="")
    if _words(text) <= _SHORT:
        return []
    found = {
        name: value
        for name, value in fields.items()
        if value != text and 0 < _words(value) <= _SHORT and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text)
    }
    return list(found) if len(set(found.values())) > 1 else []


def within_lists(record: Mapping[str, object], text: str) -> list[str]:
    """The keys of lists of objects, or of lists, of which one names two or more entities that stand in the text:
    triples of whatever layout. A list of words is none: they may be keywords.
    """
    found = []
    for key, value in record.items():
        items = [it for it in value if isinstance(it, dict | list)] if isinstance(value, list) else []
        if any(within(dict(_texts_in(item)), text) for item in items[:_ITEMS]):
            found.append(key)
    return found


def _texts_in(value: object, name: str = "", depth: int = 3) -> Iterator[tuple[str, str]]:
    """The texts in a value of JSON, each with the way to it as its name; not below so many levels."""
    if isinstance(value, str):
        yield name, value
    elif depth and isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, it in inner:
            yield from _texts_in(it, f"{name}/{key}", depth - 1)


def label_names(names: Iterable[str]) -> list[str]:
    """Those of the names of columns, or of keys, that say that a row has a label or a pair of entities."""
    known = {name.strip(' "').casefold(): name.strip(' "') for name in names}
    found = [known[name] for name in sorted(_LABELS & set(known))]
    return found + [known[end] for ends in _ENDS if set(ends) <= set(known) for end in ends]
