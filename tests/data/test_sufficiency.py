"""What a data set is too small for is said in a sentence, and nothing is said of one that is large enough."""

import json

import pytest

from fedrel import config
from fedrel.data import loading
from fedrel.data.sufficiency import too_little


def written(folder, facts, *, sentences=2, relations=("born in",)):
    """Distant supervision with so many facts, each relation in turn."""
    folder.mkdir()
    for split, count in (("train", facts), ("dev", max(1, facts // 5)), ("test", max(1, facts // 5))):
        rows = []
        for n in range(count):
            for copy in range(sentences):
                text = f"{split}{n} was seen in Town{n} {copy} times"
                rows.append(
                    {
                        "text": text,
                        "h": {"id": f"{split}{n}", "name": "x", "pos": [0, len(f"{split}{n}")]},
                        "t": {"id": f"t{n}", "name": "y", "pos": [text.index("Town"), text.index("Town") + 4]},
                        "relation": relations[n % len(relations)] if n % 3 else "NA",
                    }
                )
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return loading.load(config.Data(source="opennre", path=str(folder)))


def test_of_a_handful_of_facts_everything_is_doubted(tmp_path):
    found = too_little(written(tmp_path / "few", 12), most=0.05)
    assert len(found) == 2
    assert found[0].startswith("train has 8 facts, too few to learn from")
    assert found[1].startswith("dev has 1 fact, too few to choose a round")
    assert "no confidence is above 0.05" in found[1]


def test_of_enough_facts_nothing_is_said(tmp_path):
    assert too_little(written(tmp_path / "many", 300)) == []


def test_relations_with_hardly_a_fact_are_named(tmp_path):
    names = tuple(f"r{n}" for n in range(60))
    [rare] = [it for it in too_little(written(tmp_path / "rare", 200, relations=names)) if "relations have" in it]
    assert "fewer than 5 facts in train" in rare
    assert "r1, " in rare and "…" in rare


def test_a_relation_that_train_lacks_is_named(tmp_path):
    written(tmp_path / "d", 300)
    dev = tmp_path / "d" / "dev.jsonl"
    dev.write_text(dev.read_text().replace("born in", "died in", 1))
    [rare] = too_little(loading.load(config.Data(source="opennre", path=str(tmp_path / "d"))))
    assert rare == (
        "1 of 2 relations has fewer than 5 facts in train (died in): do not trust predictions of it; more text or a "
        "larger knowledge base would help, or leave it out"
    )


def test_labelled_texts_are_told_in_their_own_words(tmp_path):
    (tmp_path / "t").mkdir()
    for split, count in (("train", 12), ("dev", 6), ("test", 6)):
        rows = [f"{split} film number {n}\t{('good', 'bad')[n % 2] if n else 'dull'}\n" for n in range(count)]
        (tmp_path / "t" / f"{split}.tsv").write_text("text\tlabel\n" + "".join(rows))
    found = too_little(loading.load(config.Data(source="classification", path=str(tmp_path / "t"))))
    assert found == [
        "train has 12 labelled texts, too few to learn from: more labelled texts would help; a pretrained encoder "
        "makes the most of them",
        "1 of 3 labels has fewer than 5 labelled texts in train (dull): do not trust predictions of it; more labelled "
        "texts would help, or leave it out",
        "dev has 6 labelled texts, too few to choose a round or fit confidences by: its scores are mostly chance; a "
        "larger dev would help (data.dev=0.3), or more labelled texts",
    ]


def test_facts_of_one_sentence_each_leave_nothing_to_choose(tmp_path):
    found = too_little(written(tmp_path / "single", 300, sentences=1))
    assert found == ["no fact of train has a second sentence, so there is nothing to choose: set method.name=none"]


@pytest.mark.parametrize("size", ["demo"])
def test_the_demo_is_large_enough(size):
    assert too_little(loading.load(config.Data(size=size))) == []
