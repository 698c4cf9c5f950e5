"""Splits that are carved from little: not by luck, and refused with how much there is and how much is needed."""

import zlib
from pathlib import Path

import pytest

from fedrel.config import Data
from fedrel.corpus import NA, Instance
from fedrel.data.carving import Carving
from tests.instances import sentence, sentences, write
from tests.labelled_examples import classification, semeval, tacred
from tests.loading import all_of, load, pairs, part, refusal

SPLITS = ("train", "dev", "test")


def held_out(it: Instance, split: str) -> bool:
    return zlib.crc32(f"{split}\t{it.head.id}\t{it.tail.id}".encode()) % 10 == 0


def facts(instances) -> list[Instance]:
    return [it for it in instances if it.relation != NA]


def chosen(count: int, *, prefix: str, drawn: bool, split="test") -> list[Instance]:
    """So many sentences of facts, each of a pair that the usual draw takes, or does not."""
    found = [it for it in sentences(400 * count, prefix=prefix, each=1) if held_out(it, split) == drawn]
    return facts(found)[:count]


@pytest.mark.parametrize("drawn", [True, False])
@pytest.mark.parametrize("count", [3, 4, 30])
def test_an_unlucky_draw_is_drawn_again(tmp_path, drawn, count):
    made = chosen(count, prefix=f"luck{drawn}{count}", drawn=drawn)
    dataset, _ = load(write(tmp_path / "a.jsonl", made))
    found = all_of(dataset)
    assert len(facts(found["test"])) == max(1, count // 10)
    assert sorted((it for split in SPLITS for it in found[split]), key=repr) == sorted(made, key=repr)
    assert min(len(facts(found[split])) for split in SPLITS) >= 1
    assert not pairs(found["train"]) & pairs(found["test"])
    taken = f"{max(1, count // 10)} of the {count} pairs with a relation in train {'were' if count > 29 else 'was'}"
    assert f"{taken} taken for test: of so few, a draw by chance took none or too many" in dataset.notes
    again, _ = load(write(tmp_path / "b.jsonl", list(reversed(made))))
    assert pairs(all_of(again)["test"]) == pairs(found["test"]), "the order of rows does not matter"


def test_a_draw_that_suits_is_left_as_it_is(tmp_path):
    dataset, _ = load(write(tmp_path / "a.jsonl", made := sentences(300, prefix="suits")))
    assert pairs(all_of(dataset)["test"]) == pairs(it for it in made if held_out(it, "test"))
    assert not any("by chance" in note for note in dataset.notes)


def test_pairs_without_a_relation_are_no_reason_to_be_content(tmp_path):
    none = [it for it in sentences(200, prefix="na", each=1) if it.relation == NA]
    dataset, _ = load(write(tmp_path / "a.jsonl", [*none, *chosen(3, prefix="na-only", drawn=False)]))
    assert [len(facts(found)) for found in all_of(dataset).values()] == [1, 1, 1]


@pytest.mark.parametrize(("count", "dev"), [(1, False), (2, False), (1, True)])
def test_too_few_pairs_are_counted(tmp_path, count, dev):
    write(tmp_path / "train.jsonl", [*sentences(count * 2, prefix=f"few{count}{dev}"), sentence("x", "y", NA)])
    if dev:
        write(tmp_path / "dev.jsonl", sentences(4, prefix=f"few{count}dev"))
    missing, files = ("test", "a test file") if dev else ("test and dev", "a test file and a dev file")
    assert refusal(tmp_path) == (
        f"{tmp_path}: train has {count} pair{'s' if count > 1 else ''} with a relation, and at least "
        f"{2 if dev else 3} are needed to carve {missing} from it; add more, or add {files}"
    )


def test_pairs_of_one_sentence_cannot_be_told_apart(tmp_path):
    made = [sentence(f"h{n}", f"t{n}", "r", words=("a", "met", "b")) for n in range(5)]
    assert refusal(write(tmp_path / "a.jsonl", made)).startswith(
        f"{tmp_path}/a.jsonl: train has 5 pairs with a relation that share their sentences, and at least 3 are needed"
    )


def test_some_pairs_may_share_their_sentences(tmp_path):
    made = [sentence(f"one{n}", f"t{n}", "r", words=("a", "met", "b", str(max(n, 3)))) for n in range(6)]
    found = all_of(load(write(tmp_path / "a.jsonl", made))[0])
    assert min(map(len, found.values())) >= 1
    told = {tuple(it.tokens): split for split in SPLITS for it in found[split]}
    assert all(told[tuple(it.tokens)] == split for split in SPLITS for it in found[split])


def test_nothing_but_na_is_told(tmp_path):
    none = [it for it in sentences(40) if it.relation == NA]
    assert refusal(write(tmp_path / "a.jsonl", none)) == (
        f'no train sentence has a relation other than "{NA}": there is nothing to find in it'
    )


# ---------------------------------------------------------------------------------------- gold labels and texts


@pytest.mark.parametrize("count", range(6, 30))
def test_gold_sentences_are_carved_whatever_the_luck(tmp_path, count):
    (tmp_path / "train.txt").write_text(semeval(f"x{count}", count))
    found = all_of(load(tmp_path, source="semeval")[0])
    assert min(len(facts(it)) for it in found.values()) >= 1
    assert sum(map(len, found.values())) == count


def test_documents_stay_together_when_drawn_again(tmp_path):
    (tmp_path / "train.json").write_text(tacred("together", 6))
    found = all_of(load(tmp_path, source="tacred")[0])
    assert [len(it) for it in found.values()] == [2, 2, 2], "two sentences a document"
    assert all(len({it.source for it in rows}) == 1 for rows in found.values())


def test_too_few_documents_and_sentences_are_counted_as_such(tmp_path):
    (tmp_path / "train.json").write_text(tacred("counted", 4))
    assert "train has 2 documents with a relation, and at least 3 are needed" in refusal(tmp_path, source="tacred")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "train.txt").write_text(semeval("counted", 3))
    assert "train has 1 sentence with a relation, and at least 3" in refusal(tmp_path / "s", source="semeval")


def test_texts_are_carved_whatever_the_luck_too(tmp_path):
    for count in (3, 4, 9):
        (tmp_path / "train.tsv").write_text(classification(f"luck {count}", count))
        found = all_of(load(tmp_path, source="classification")[0])
        assert min(map(len, found.values())) >= 1
    (tmp_path / "train.tsv").write_text(classification("luck", 2))
    assert refusal(tmp_path, source="classification").startswith(
        f"{tmp_path}: train has 2 texts, and at least 3 are needed to carve test and dev from it"
    )


def test_a_share_for_dev_leaves_something_to_train_on(tmp_path):
    write(tmp_path / "train.jsonl", chosen(3, prefix="share", drawn=False))
    write(tmp_path / "test.jsonl", sentences(4, prefix="sharetest"))
    found = all_of(load(tmp_path, dev=0.9)[0])
    assert {len(found["train"]), len(found["dev"])} == {1, 2}


# -------------------------------------------------------------------------------------------------- platforms


def private(folder: Path, made: list[Instance]) -> Path:
    """Two platforms with half of the sentences each, and a coordinator with nothing."""
    for name, rows in (("a", made[::2]), ("b", made[1::2])):
        write(folder / name / "train.jsonl", rows)
    (folder / "coordinator").mkdir()
    return folder


def test_platforms_draw_alike_and_are_told_how_much_there_is(tmp_path):
    private(tmp_path, chosen(12, prefix="alike", drawn=False))
    assert refusal(tmp_path) == (
        f"{tmp_path}: test is one pair in 10 of what each platform has, and none of the 12 pairs with a relation was "
        "drawn for it; put a test file into coordinator, or add more"
    )
    alone = part(tmp_path / "a", "r0", "r2", held_out=("test",))
    assert (len(alone.train), len(alone.test)) == (6, 0), "a platform alone does not draw again"


def test_the_usual_draw_is_that_of_platforms():
    made = sentences(300, prefix="usual")
    carving = Carving(lambda: made, "test", 0.1, Data(source="opennre"))
    assert carving.settle(2) is None
    assert list(carving.carved()) == [it for it in made if held_out(it, "test")]
    assert carving.redrawn is None
