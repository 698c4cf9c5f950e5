"""Splits that are carved from train: what goes and what stays, by a draw that nothing but the content decides."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fedrel.config import WORLD, Data
from fedrel.corpus import FORMATS, NA, Instance
from fedrel.corpus.packed import as_given
from fedrel.corpus.rules import tokens_key
from fedrel.corpus.splitting import NEITHER, TRAIN, Draft
from fedrel.data.sources import are_texts, has_na, is_gold
from fedrel.data.streams import Stream, is_empty
from fedrel.errors import UserError

HELD_OUT = 10  # one in ten, where a split has to be carved from train
_STAYS, _GOES = TRAIN, 1


class Carving:
    """Rows of train that go to another split, decided once for the whole stream, row by row.

    Gold rows of one document stay together; where documents are unknown, those of one sentence. What distant
    supervision labelled is divided by pairs, since pairs are what is evaluated, with sentences kept together (`Draft`).
    Labelled texts are divided one by one. What is drawn depends on the content and the name of the split alone, so it
    is the same on every platform and whatever files are called.
    """

    def __init__(self, train: Stream, split: str, share: float, data: Data) -> None:
        self._train, self._split, self._share = train, split, share
        self._gold, self._na = is_gold(data), has_na(data)
        self._decided: bytes | None = None  # of each row of distant supervision, in their order
        self._again: dict[str, bool] = {}  # of documents or sentences with a relation: whether they go, drawn again
        self.redrawn: tuple[int, int] | None = None  # how many were taken of how many, where it was drawn again

    def kept(self) -> Iterator[Instance]:
        """The rows that stay in train."""
        return self._rows(_STAYS)

    def carved(self) -> Iterator[Instance]:
        """The rows that go to the other split."""
        return self._rows(_GOES)

    @property
    def left_out(self) -> int:
        """Rows that are in neither, as their sentence and their pair are in different splits."""
        return 0 if self._decided is None else self._decided.count(NEITHER)

    def settle(self, spare: int) -> int | None:
        """Makes sure that something with a relation goes, and that so many documents (sentences, pairs) with one stay:
        where the usual draw does not see to it, those are ranked by their hash and the first are taken. How many there
        are, if they are too few for that; else None.
        """
        return self._settle_gold(spare) if self._gold else self._settle_pairs(spare)

    def _rows(self, wanted: int) -> Iterator[Instance]:
        if self._gold:
            for instance in self._train():
                if self._goes(unit_of(instance)) == (wanted == _GOES):
                    yield instance
            return
        if self._decided is None:
            self._decided = self._draft().decide()
        for instance, decision in zip(self._train(), self._decided, strict=True):
            if decision == wanted:
                yield instance

    def _goes(self, unit: str) -> bool:
        return self._again[unit] if unit in self._again else self._draws(unit)

    def _draws(self, *content: str) -> bool:
        drawn = self._hash(*content)
        if self._share == 1 / HELD_OUT:
            return drawn % HELD_OUT == 0
        return drawn % 10_000 < self._share * 10_000

    def _hash(self, *content: str) -> int:
        return zlib.crc32("\t".join((self._split, *content)).encode("utf-8", "surrogatepass"))

    def _counts(self, instance: Instance) -> bool:
        return is_fact(instance, self._na)

    def _wanted(self, count: int, spare: int) -> int:
        """How many of so many go."""
        return max(1, min(round(count * self._share), count - spare))

    # gold labels

    def _settle_gold(self, spare: int) -> int | None:
        drawn: tuple[set[str], set[str]] = set(), set()
        for instance in filter(self._counts, self._train()):
            unit = unit_of(instance)
            drawn[self._draws(unit)].add(unit)
            if drawn[_GOES] and len(drawn[_STAYS]) >= spare:
                return None
        units = sorted(drawn[_STAYS] | drawn[_GOES], key=lambda unit: (self._hash(unit), unit))
        if len(units) <= spare:
            return len(units)
        taken = self._wanted(len(units), spare)
        self._again = {unit: place < taken for place, unit in enumerate(units)}
        self.redrawn = taken, len(units)
        return None

    # distant supervision, and labelled texts

    def _draft(self) -> Draft:
        draft = Draft()
        for it in self._train():
            drawn = self._draws(it.head.id, it.tail.id)
            draft.add(hash(tuple(it.tokens)), _pair(it), is_fact=self._counts(it), drawn=drawn)
        return draft

    def _settle_pairs(self, spare: int) -> int | None:
        draft = self._draft()
        self._decided = draft.decide()
        if _is_settled(draft, self._decided, spare):
            return None
        ids = {(it.head.id, it.tail.id): _pair(it) for it in filter(self._counts, self._train())}
        ranked = [pair for _, pair in sorted((self._hash(*names), pair) for names, pair in ids.items())]
        if len(ranked) <= spare:
            return len(ranked)
        again = draft.draw_again(
            _GOES, ranked, self._wanted(len(ranked), spare), lambda decided: _is_settled(draft, decided, spare)
        )
        if again is None:
            return len(ranked)
        self._decided, taken = again
        self.redrawn = taken, len(ranked)
        return None


def _pair(instance: Instance) -> int:
    return hash((instance.head.id, instance.tail.id))


def _is_settled(draft: Draft, decided: bytes, spare: int) -> bool:
    return draft.facts_in(decided, _GOES) > 0 and draft.facts_in(decided, _STAYS) >= spare


def is_fact(instance: Instance, na: bool) -> bool:
    """Whether a sentence has a relation that is to be found; without `na`, "no relation" is none of the labels."""
    return not na or instance.relation != NA


def unit_of(instance: Instance) -> str:
    """What gold rows are kept together by: their document or, where it is unknown, their sentence."""
    return instance.document or tokens_key(instance)


# ------------------------------------------------------------------------------------------- one data set


def carve_missing(
    streams: Mapping[str, Stream], missing: Sequence[str], data: Data
) -> tuple[dict[str, Stream], list[str]]:
    """All splits, the missing ones carved from train, and notes on it. UserError if train is too small for that."""
    carved, notes = dict(streams), []
    for number, split in enumerate(missing):
        share = data.dev if split == "dev" and data.dev else 1 / HELD_OUT
        carving = Carving(carved["train"], split, share, data)
        if (count := carving.settle(spare=len(missing) - number)) is not None:
            raise _too_few(count, streams["train"], missing, data)
        carved |= {"train": carving.kept, split: carving.carved}
        notes.append(
            f"{data.dev:.0%} of the {unit(data)}s of train were taken for dev"
            if split == "dev" and data.dev
            else carved_note(split, data)
        )
        if carving.redrawn:
            taken, count = carving.redrawn
            notes.append(
                f"{taken:,} of the {count:,} {unit(data)}s{_related(data)} in train {'was' if taken == 1 else 'were'} "
                f"taken for {split}: of so few, a draw by chance took none or too many"
            )
        if carving.left_out:
            notes.append(f"{carving.left_out:,} rows left out: of their sentence and their pair, one is in {split}")
    return carved, notes


def _too_few(count: int, train: Stream, missing: Sequence[str], data: Data) -> UserError:
    if not count and has_na(data):
        return UserError(f'no train sentence has a relation other than "{NA}": there is nothing to find in it')
    one = "document" if is_gold(data) and any(it.document for it in train()) else unit(data)
    needed = len(missing) + 1
    why = f"train has {count:,} {one}{'s' if count != 1 else ''}{_related(data)}"
    if count >= needed:
        why += " that share their sentences"
    return UserError(
        f"{data.path}: {why}, and at least {needed} are needed to carve {' and '.join(missing)} from it; add more, or "
        f"add {' and '.join(f'a {split} file' for split in missing)}"
    )


def _related(data: Data) -> str:
    return " with a relation" if has_na(data) else ""


# --------------------------------------------------------------------------------------------- platforms


def hold_out(
    streams: Mapping[str, Stream], splits: Sequence[str], path: Path, data: Data
) -> tuple[dict[str, Stream], list[str]]:
    """One platform's train and what it holds out: files of its own, or else a tenth of its train; and which splits are
    carved in that way. What is drawn is the same everywhere, so that of platforms without such files none trains on a
    fact that another holds out.
    """
    held = dict(streams)
    carved = [split for split in ("test", "dev") if split in splits and split not in streams]
    for split in carved:
        carving = Carving(held["train"], split, 1 / HELD_OUT, data)
        held |= {"train": carving.kept, split: carving.carved}
    if carved and is_empty(held["train"]):
        count = len(units_of(streams["train"](), data))
        raise UserError(
            f"{as_given(path)}: {' and '.join(carved)} {'is' if len(carved) == 1 else 'are'} one {unit(data)} in "
            f"{HELD_OUT}, drawn alike on every platform, which here takes all of train ({count:,}); add "
            f"{unit(data)}s, or {' and '.join(f'a {split} file' for split in carved)}"
        )
    return held, carved


def require_held_out(split: str, held_out: Stream, trains: Iterable[Stream], path: str, where: str, data: Data) -> None:
    """Raises UserError, with how much there is, if what the platforms carved for a split has no relation in it."""
    na = has_na(data)
    if any(is_fact(it, na) for it in held_out()):
        return
    facts = (it for train in trains for it in train() if is_fact(it, na))
    count = len(units_of(facts, data))
    raise UserError(
        f"{path}: {split} is one {unit(data)} in {HELD_OUT} of what each platform has, and none of the {count:,} "
        f"{unit(data)}s{_related(data)} was drawn for it; put a {split} file into {where}, or add more"
    )


def units_of(instances: Iterable[Instance], data: Data) -> set[object]:
    """What instances are held out by: their documents (sentences), or pairs."""
    return {unit_of(it) if is_gold(data) else (it.head.id, it.tail.id) for it in instances}


def without_held_out(streams: Mapping[str, Stream], splits: Sequence[str], path: Path, data: Data) -> dict[str, Stream]:
    """The coordinator's splits, its train without what platforms may hold out: it does not know who does."""
    if "train" not in streams:
        return dict(streams)
    kept, _ = hold_out({"train": streams["train"]}, splits, path, data)
    return {**streams, "train": kept["train"]}


def unit(data: Data) -> str:
    """What is held out of train as a whole: `text`, `document` (or sentence), `pair`."""
    if are_texts(data):
        return "text"
    if data.source == WORLD or not FORMATS[data.source].gold:
        return "pair"
    return "sentence" if FORMATS[data.source].documents is None else "document"


def carved_note(split: str, data: Data) -> str:
    """That a split was not given, and what took its place."""
    what = "texts" if are_texts(data) else "sentences"
    return f"no {split} {what} given: one {unit(data)} in {HELD_OUT} was carved from train for {split}"
