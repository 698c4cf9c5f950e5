"""The built-in world as a newcomer would find it: plain documents and an incomplete knowledge base.

`text` is what the training and dev sentences say, `new` what the test sentences say: of its facts the knowledge base
knows every second one. `truth.tsv` has all facts and which of the two names them, to measure by. Sentences are spread
over documents by their source.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.world import World
from fedrel.corpus.world_phrases import phrases

_SENTENCES = 100  # of a document
_BEFORE = re.compile(r" (?=[,.;:!?)%]|'s\b)")
_AFTER = re.compile(r"(?<=\() ")
_PARTS = {"text": ("train", "dev"), "new": ("test",)}


def write(world: World, folder: Path) -> None:
    for part, splits in _PARTS.items():
        (folder / part).mkdir()
        for name, sentences in documents(world, splits):
            (folder / part / f"{name}.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8", newline="\n")
    (folder / "kb").mkdir()
    write_entities(world, folder / "kb")
    with (
        (folder / "kb" / "triples.tsv").open("w", encoding="utf-8", newline="\n") as known,
        (folder / "truth.tsv").open("w", encoding="utf-8", newline="\n") as truth,
    ):
        for part, splits in _PARTS.items():
            for number, both in enumerate(both for split in splits for both in facts(world, split)):
                truth.writelines("\t".join((*triple, part)) + "\n" for triple in both)
                if part == "text" or number % 2:
                    known.writelines("\t".join(triple) + "\n" for triple in both)


def write_entities(world: World, folder: Path) -> None:
    with (folder / "entities.tsv").open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{e.id}\t{e.type}\t{'|'.join(e.names)}\n" for e in world.entities())


def documents(world: World, splits: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Names and sentences; a sentence that the world lists for two relations comes once."""
    waiting: defaultdict[str, list[str]] = defaultdict(list)
    count: defaultdict[str, int] = defaultdict(int)
    previous = ""
    for split in splits:
        for instance in world.instances(split):
            sentence = _AFTER.sub("", _BEFORE.sub("", " ".join(instance.tokens)))
            if sentence == previous:
                continue
            previous = sentence
            waiting[instance.source].append(sentence)
            if len(waiting[instance.source]) == _SENTENCES:
                count[instance.source] += 1
                yield _name(instance.source, count[instance.source]), waiting.pop(instance.source)
    for source, rest in sorted(waiting.items()):
        yield _name(source, count[source] + 1), rest


def facts(world: World, split: str) -> Iterator[list[tuple[str, str, str]]]:
    """The facts of a split, those that hold in both directions in both."""
    symmetric = {relation.name for relation in phrases().relations if relation.symmetric}
    for head, relation, tail in world.triples(split):
        yield [(head, relation, tail), (tail, relation, head)][: 1 + (relation in symmetric)]


def _name(source: str, number: int) -> str:
    return f"{re.sub('[^a-z]+', '-', source.lower())}-{number:03}"
