"""More text beside one's own: what is added to train, what is known already, and what dev and test judge by."""

import pytest

from fedrel.config import Data
from fedrel.data import loading
from fedrel.data.store import iterate
from fedrel.errors import UserError
from tests import instances
from tests.instances import write


def sentence(text, head, tail, relation):
    return instances.sentence(head, tail, relation, text.split())


def data(folder, **splits):
    for split, rows in splits.items():
        write(folder / f"{split}.jsonl", rows)
    return folder


@pytest.fixture
def own(tmp_path):
    return data(
        tmp_path / "own",
        train=[sentence("A from B .", "a", "b", "born"), sentence("C met D .", "c", "d", "NA")],
        dev=[sentence("E from F .", "e", "f", "born"), sentence("E met G .", "e", "g", "NA")],
        test=[sentence("H from I .", "h", "i", "born"), sentence("H met J .", "h", "j", "NA")],
    )


def texts(dataset, split):
    return [" ".join(it.tokens) for it in iterate(dataset, split)]


def test_new_sentences_come_after_ones_own_and_pairs_of_dev_and_test_stay_out(own, tmp_path):
    more = data(
        tmp_path / "more",
        train=[
            sentence("A from B .", "a", "b", "born"),  # known
            sentence("A left B .", "a", "b", "born"),
            sentence("F saw E .", "f", "e", "NA"),  # a pair of dev, the other way round
            sentence("H left I .", "h", "i", "born"),  # a pair of test
            sentence("K met L .", "k", "l", "NA"),
        ],
        dev=[sentence("M from N .", "m", "n", "born")],
        test=[sentence("O from P .", "o", "p", "born")],
    )
    alone = loading.load(Data(source="opennre", path=str(own)))
    both = loading.load(Data(source="opennre", path=str(own), more=(str(more),)))
    assert texts(both, both.train) == [*texts(alone, alone.train), "A left B .", "K met L ."]
    assert texts(both, both.dev) == texts(alone, alone.dev)
    assert texts(both, both.test) == texts(alone, alone.test)
    assert both.relations == alone.relations
    assert any(f"2 sentences of {more} were added to train; 3 are known already" in note for note in both.notes)
    assert loading.load(Data(source="opennre", path=str(own), more=(str(more),))).folder == both.folder


def test_sentences_of_other_relations_are_left_out_and_counted(own, tmp_path):
    rows = [sentence("A left B .", "a", "b", "left"), sentence("K from L .", "k", "l", "born")]
    more = write(tmp_path / "more.jsonl", rows)  # a file alone: all of it is train
    both = loading.load(Data(source="opennre", path=str(own), more=(str(more),)))
    assert texts(both, both.train)[-1] == "K from L ." and both.relations == ["NA", "born"]
    assert any("1 sentence left out: relation not in" in note for note in both.notes), both.notes


def test_platforms_in_folders_have_what_they_have(tmp_path):
    rows = [sentence(f"A{n} from B{n} .", f"a{n}", f"b{n}", "born" if n % 2 else "NA") for n in range(40)]
    for place, part in (("p0", rows[:10]), ("p1", rows[10:20])):
        data(tmp_path / "all" / place, train=part)
    data(tmp_path / "all" / "coordinator", dev=rows[20:30], test=rows[30:])
    more = write(tmp_path / "more.jsonl", rows[:2])
    with pytest.raises(UserError, match="every platform has a folder of its own"):
        loading.load(Data(source="opennre", path=str(tmp_path / "all"), more=(str(more),)))
