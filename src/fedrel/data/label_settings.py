"""The settings that name labels (`data.labels`, `na_label`, `directions`, `relations`) against the labels that the data
have: a name that matches none of them is most likely a typo, and would change nothing without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from fedrel.config import Data
from fedrel.corpus import NA
from fedrel.corpus.rules import EVERY
from fedrel.data.sources import agreed_relations
from fedrel.errors import UserError, nearest
from fedrel.util.escaping import shown

_LISTED = 20  # labels that a message names
_NAMED = 5  # agreed relations without a row that are named one by one
_LONGEST = 60  # characters of a label in a message


def require_known_labels(data: Data, became: Mapping[str, str]) -> list[str]:
    """Compares the settings with all labels of the data, as they are in the files, and with what became of each: its
    new name, or NA. UserError for a setting that matches none of them. Of relations agreed beforehand one must occur;
    those that do not are told, a line each.
    """
    renamed = dict(data.labels)
    named = {renamed.get(label, label): final for label, final in became.items()}
    for label in renamed:
        if label not in became:
            raise _unknown(f'data.labels renames "{shown(label, _LONGEST)}"', label, became, data)
    if data.na_label and data.na_label not in {NA, *named}:
        _refuse_old_name("data.na_label", data.na_label, became, renamed)
        raise _unknown(f'data.na_label is "{shown(data.na_label, _LONGEST)}"', data.na_label, named, data)
    relations = {name for name, final in named.items() if final != NA}
    for name, _ in data.directions:
        if name in relations or name == EVERY:
            continue
        if name in named:
            raise UserError(f'data.directions: "{shown(name, _LONGEST)}" means no relation here; leave it out')
        _refuse_old_name("data.directions", name, became, renamed)
        raise _unknown(f'data.directions names "{shown(name, _LONGEST)}"', name, relations, data)
    return list(_missing_relations(data, became, renamed))


def _missing_relations(data: Data, became: Mapping[str, str], renamed: Mapping[str, str]) -> Iterator[str]:
    agreed = agreed_relations(data)
    there = set(became.values())
    missing = [name for name in agreed if name not in there]
    for name in missing:
        _refuse_old_name("data.relations", name, became, renamed)
    others = there - {NA, *agreed}
    if missing and len(missing) == len(agreed):
        several = f" and {len(agreed) - 1:,} more" if len(agreed) > 1 else ""
        raise _unknown(f'data.relations names "{shown(missing[0], _LONGEST)}"{several}', missing[0], others, data)
    for name in missing[:_NAMED]:
        yield f'data.relations: nothing in the data is labelled "{shown(name, _LONGEST)}"{nearest(name, others)}'
    if len(missing) > _NAMED:
        yield f"data.relations: nothing in the data is labelled with {len(missing) - _NAMED:,} more of them"


def _refuse_old_name(setting: str, name: str, became: Mapping[str, str], renamed: Mapping[str, str]) -> None:
    if name in became and name in renamed:
        raise UserError(
            f'{setting} goes by new names, and data.labels renames "{shown(name, _LONGEST)}" to '
            f'"{shown(renamed[name], _LONGEST)}"; write that'
        )


def _unknown(what: str, name: str, labels: Collection[str], data: Data) -> UserError:
    place = data.path or "the data"
    if not labels:
        return UserError(f"{what}, and no relation is marked in {place}; leave it out")
    names = sorted(labels)
    listed = ", ".join(shown(label, _LONGEST) for label in names[:_LISTED])
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return UserError(f"{what}, which is no label in {place}{nearest(name, names)} (labels: {listed}{more})")
