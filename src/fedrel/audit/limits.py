"""Limits that an audit must keep to: `auc=0.6` for all attacks, `fingerprint.tpr=0.02` for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedrel.audit.running import ATTACKS
from fedrel.errors import UserError, suggest

MEASURES = ("auc", "tpr", "place", "key", "gain", "share", "read")


@dataclass(frozen=True)
class Limit:
    """The most that a measure may be, of one attack or (empty) of all."""

    attack: str
    measure: str
    most: float

    def exceeded(self, report: Mapping[str, Any]) -> list[str]:
        """What is above the limit, in words; an attack that does not apply is not."""
        return [
            f"{it['attack']}.{self.measure} is {it['measures'][self.measure]['value']:.3f}, above {self.most:g}"
            for it in report["attacks"]
            if self.attack in ("", it["attack"])
            and self.measure in it["measures"]
            and it["measures"][self.measure]["value"] > self.most
        ]


def read_limits(texts: Iterable[str]) -> list[Limit]:
    """Limits as they are written. UserError for one that is not `[ATTACK.]MEASURE=NUMBER`."""
    return [_limit(text) for text in texts]


def _limit(text: str) -> Limit:
    name, equals, number = text.partition("=")
    attack, dot, measure = name.strip().rpartition(".")
    try:
        most = float(number)
    except ValueError:
        most = float("nan")
    if not equals or not 0 <= most <= 1:
        raise UserError(
            f"--limit {text}: write a measure and a number from 0 to 1, as in auc=0.6 or fingerprint.tpr=0.02"
        )
    if dot and attack not in (names := [it.name for it in ATTACKS]):
        raise UserError(f'--limit {text}: there is no attack "{attack}"{suggest(attack, names)}')
    if measure not in MEASURES:
        raise UserError(f'--limit {text}: there is no measure "{measure}"{suggest(measure, MEASURES)}')
    return Limit(attack, measure, most)
