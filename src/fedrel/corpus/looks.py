"""What lines look like that are no prose: markup, JSON, columns, records, tagged tokens.

Each rule asks for what most lines have in common, so that prose with a tab, a `<` or a `Note: …` here and there stays
prose.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

_LINES = 200  # that are looked at
_LONGEST_LINE = 10_000  # characters of each that are looked at
_LONGEST_LABEL = 60

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
    marked = sum(len(_MARKED.findall(line)) > 1 for line in lines)
    paired = sum(_PAIRED.search(line) is not None for line in lines)
    if marked * 10 >= len(lines) or (paired > 1 and paired * 3 >= len(lines)):
        return "sentences with tags in them"
    return ""


def _columns(lines: Sequence[str]) -> str:
    rows = [line.strip().split("\t") for line in lines]
    count, rows_of_it = Counter(map(len, rows)).most_common(1)[0]
    if count < 2 or rows_of_it < 2 or rows_of_it * 5 < len(rows) * 4:
        return ""
    columns = list(zip(*(row for row in rows if len(row) == count), strict=True))
    repeated = any(len(set(it)) < len(it) and all(len(cell) <= _LONGEST_LABEL for cell in it) for it in columns)
    return f"{count} columns between tabs" if repeated or (count > 2 and rows_of_it > 2) else ""


def _records(lines: Sequence[str]) -> str:
    fields = [match[0].strip(" \t:=").casefold() for line in lines if (match := _FIELD.match(line))]
    if len(set(fields)) > 1 and len(fields) * 2 >= len(lines):
        return "records with a name before each value"
    return ""


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


def label_names(names: Iterable[str]) -> list[str]:
    """Those of the names of columns, or of keys, that say that a row has a label or a pair of entities."""
    known = {name.strip(' "').casefold(): name.strip(' "') for name in names}
    found = [known[name] for name in sorted(_LABELS & set(known))]
    return found + [known[end] for ends in _ENDS if set(ends) <= set(known) for end in ends]
