"""From files to a data set: which file is which split, what is carved, what is refused, what is kept."""

from dataclasses import replace

import pytest

from fedrel.config import Data
from fedrel.corpus import NA, Instance
from fedrel.corpus.splits import find_splits
from fedrel.data import loading
from fedrel.errors import UserError
from tests.instances import sentence, sentences, write
from tests.loading import all_of, load, pairs, refusal, whole

# ---------------------------------------------------------------------------------------------- splits


def test_every_sentence_of_a_whole_folder_is_in_its_split(tmp_path):
    dataset, notes = load(whole(tmp_path / "d"))
    for name, found in all_of(dataset).items():
        assert found == sentences(8, prefix=name)
    assert notes[1:] == []


@pytest.mark.parametrize(
    "names",
    [
        ("train.txt", "valid.txt", "test.txt"),
        ("nyt10_train.json", "nyt10_val.json", "nyt10_test.json"),
        ("my-train.jsonl", "my-validation.jsonl", "my-test.jsonl"),
    ],
)
def test_a_split_is_known_by_its_file_name(tmp_path, names):
    for file in (*names, "rel2id.json", "readme.md", "latest.txt"):
        (tmp_path / file).write_text("")
    found = find_splits(tmp_path)
    assert [found[split].name for split in ("train", "dev", "test")] == list(names)


def test_two_files_for_one_split_are_refused(tmp_path):
    write(whole(tmp_path) / "train.txt", [])
    assert "both train.jsonl and train.txt could be train" in refusal(tmp_path)


@pytest.mark.parametrize("dev", [None, "", "\n \n"])
def test_a_missing_or_empty_dev_is_carved_from_train_by_pair_and_told(tmp_path, dev):
    write(tmp_path / "train.jsonl", sentences(200, prefix=f"carve{dev}"))
    write(tmp_path / "test.jsonl", sentences(8, prefix="t"))
    if dev is not None:
        (tmp_path / "dev.jsonl").write_text(dev)
    for _ in range(2):  # built, and from the cache
        dataset, told = load(tmp_path)
        assert [line for line in told if "carved from train for dev" in line]
    found = all_of(dataset)
    assert not pairs(found["train"]) & pairs(found["dev"])
    assert 5 <= len(pairs(found["dev"])) <= 45
    assert found["test"] == sentences(8, prefix="t")
    both = found["train"] + found["dev"]
    assert sorted(both, key=repr) == sorted(sentences(200, prefix=f"carve{dev}"), key=repr)


def test_a_single_file_is_split_by_pair_and_told(tmp_path):
    made = sentences(300)
    dataset, told = load(write(tmp_path / "everything.jsonl", made))
    assert sum("carved from train" in line for line in told) == 2
    found = all_of(dataset)
    names = ("train", "dev", "test")
    assert sorted((it for name in names for it in found[name]), key=repr) == sorted(made, key=repr)
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert not pairs(found[one]) & pairs(found[other])
    assert min(len(pairs(found[name])) for name in names) >= 10
    assert dataset.meta["overlap"] == 0


def test_which_pairs_are_carved_depends_on_the_pair_alone(tmp_path):
    made = sentences(120)
    one, _ = load(write(tmp_path / "one.jsonl", made))
    other, _ = load(write(tmp_path / "other.jsonl", list(reversed(made[:120]))))
    kept = pairs(made[:120])
    assert pairs(all_of(other)["test"]) == pairs(all_of(one)["test"]) & kept


@pytest.mark.parametrize("split", ["train", "test"])
def test_an_empty_train_or_test_file_is_refused_by_name(tmp_path, split):
    write(whole(tmp_path) / f"{split}.jsonl", [])
    assert refusal(tmp_path) == f"{tmp_path}/{split}.jsonl: no sentences; {split} needs at least one"


def test_data_that_is_not_there_is_refused(tmp_path):
    assert refusal(tmp_path / "none") == f"{tmp_path}/none: no such file or folder"
    assert "no training file" in refusal(tmp_path)
    with pytest.raises(UserError, match=r'data\.source = "opennre" needs data\.path'):
        loading.load(Data(source="opennre"))
    with pytest.raises(UserError, match=r'data\.source = "opennr" is unknown; did you mean "opennre"\?'):
        loading.load(Data(source="opennr"))


@pytest.mark.parametrize("split", ["train", "dev", "test"])
@pytest.mark.parametrize(
    ("content", "says"),
    [(b'{"text": "Ann', "not a JSON object (is the file cut off?)"), (b"caf\xe9", "not UTF-8 text")],
)
def test_a_bad_line_of_any_split_is_refused_with_its_place_and_nothing_is_kept(tmp_path, cache, split, content, says):
    file = whole(tmp_path, mark=f"{split}{len(content)}") / f"{split}.jsonl"
    file.write_bytes(file.read_bytes() + content)
    before = set(cache.rglob("*"))
    assert refusal(tmp_path).startswith(f"{file}:17: {says}")
    assert set(cache.rglob("*")) == before


def test_overlap_is_counted_and_refused_unless_allowed(tmp_path):
    write(whole(tmp_path) / "test.jsonl", [*sentences(8, prefix="x"), *sentences(3, prefix="train")])
    dataset, _ = load(tmp_path)
    with pytest.raises(UserError, match=r"^3 entity pairs are in both train and test"):
        dataset.require_no_overlap(False)


def test_nyt10_files_are_read_too(tmp_path):
    for name in ("train", "dev", "test"):
        lines = [
            f"h{name}{n}\tt{n}\tann\tbonn\t{'NA' if n % 2 else '/born'}\tann in bonn ###END###\n" for n in range(4)
        ]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    dataset, _ = load(tmp_path, source="nyt10")
    assert dataset.relations == [NA, "/born"]
    assert len(dataset.train) == len(dataset.dev) == len(dataset.test) == 4


# ----------------------------------------------------------------------------------------------- cache


def test_the_same_content_elsewhere_is_the_same_data_set(tmp_path):
    one, told = load(whole(tmp_path / "one", mark="same"))
    other, told_again = load(whole(tmp_path / "other", mark="same"))
    assert one.folder == other.folder
    assert told == [f"reading {tmp_path / 'one'} …"]
    assert told_again == []


def test_other_content_is_another_data_set(tmp_path):
    folder = whole(tmp_path, mark="change")
    seen = {load(folder)[0].folder}
    for name in ("train", "dev", "test"):
        write(folder / f"{name}.jsonl", [*sentences(8, prefix=f"change{name}"), sentence("new", name)])
        seen.add(load(folder)[0].folder)
    (folder / "dev.jsonl").unlink()
    write(folder / "train.jsonl", sentences(60))
    seen.add(load(folder)[0].folder)
    assert len(seen) == 5


def test_a_world_is_kept_by_its_parameters():
    data = Data(size=500, seed=5)
    others = [replace(data, **change) for change in ({"seed": 6}, {"size": 501}, {"noise": 0.5}, {"evidence": 6.0})]
    folders = [loading.load(it).folder for it in (data, *others)]
    assert len(set(folders)) == 5
    assert loading.load(replace(data, allow_overlap=True, path="elsewhere")).folder == folders[0]


def test_the_built_in_world_is_stored_as_it_is_made():
    data = Data(size=500, seed=5)
    dataset = loading.load(data)
    made = loading.world_of(data)
    for name, found in all_of(dataset).items():
        assert found == [it if isinstance(it.tokens, list) else _listed(it) for it in made.instances(name)]
    assert dataset.relations == made.relations()
    assert dataset.meta["overlap"] == 0


def _listed(it: Instance) -> Instance:
    return Instance(list(it.tokens), it.head, it.tail, it.relation, it.source, it.expressed)


# ------------------------------------------------------------------------- relations agreed beforehand


def test_agreed_relations_are_numbered_in_their_order_and_others_left_out(tmp_path):
    dataset, _ = load(whole(tmp_path, mark="agreed"), relations=("r2", "new"))
    assert dataset.relations == [NA, "r2", "new"]
    for name, found in all_of(dataset).items():
        assert found == [it for it in sentences(8, prefix=f"agreed{name}") if it.relation in (NA, "r2")]
    assert dataset.notes == [
        'data.relations: nothing in the data is labelled "new"',
        *(f"{split}: 4 sentences left out: relation not in data.relations" for split in ("dev", "test", "train")),
    ]


def test_na_may_be_named_among_them_and_is_dropped_where_pairs_without_a_relation_are(tmp_path):
    kept, _ = load(whole(tmp_path, mark="na"), relations=("r2", NA, "r0"))
    assert (kept.relations, kept.notes) == ([NA, "r2", "r0"], [])
    dropped, _ = load(tmp_path, relations=("r2", "r0"), na="drop")
    assert dropped.relations == ["r2", "r0"]
    assert set(dropped.train.labels) == {0, 1}
    assert dropped.notes == [], "nobody asked for them"


def test_the_built_in_world_can_be_asked_for_some_of_its_relations():
    wanted = ("drug/treats", "person/born_in")
    some = loading.load(Data(size=600, relations=wanted))
    everything = loading.load(Data(size=600))
    assert some.relations == [NA, *wanted]
    for name, found in all_of(some).items():
        assert found == [it for it in all_of(everything)[name] if it.relation in (NA, *wanted)]
        left_out = len(getattr(everything, name)) - len(found)
        assert f"{name}: {left_out:,} sentences left out: relation not in data.relations" in some.notes


def test_labels_of_texts_can_be_agreed_too(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("".join(f"{split} {n}\t{'abNA'[n:] or 'a'}\n" for n in range(3)))
    dataset, _ = load(tmp_path, source="classification", relations=("NA", "bNA"))
    assert (dataset.relations, dataset.train.labels.tolist()) == (["NA", "bNA"], [1, 0])
    assert "train: 1 text left out: relation not in data.relations" in dataset.notes


def test_agreed_relations_that_leave_nothing_are_refused(tmp_path):
    whole(tmp_path, mark="nothing")
    assert refusal(tmp_path, relations=("r0",), na="drop") != ""
    assert refusal(tmp_path, relations=("other",), na="drop") == (
        f"{tmp_path}/test.jsonl: no sentences; test needs at least one "
        "(8 sentences left out: relation not in data.relations); its labels are NA, r0, r2"
    )
    assert refusal(tmp_path, relations=("other",)) == (
        f'data.relations names "other", which is no label in {tmp_path} (labels: r0, r2)'
    )
    assert refusal(tmp_path, relations=("r00", "other")) == (
        f'data.relations names "r00" and 1 more, which is no label in {tmp_path}; did you mean "r0"? (labels: r0, r2)'
    )
    assert refusal(tmp_path, relations=("r0", "r2", "r0")) == 'data.relations names "r0" twice; name it once'


def test_data_with_other_relations_are_other_data(tmp_path):
    whole(tmp_path, mark="kept")
    folders = {load(tmp_path, relations=it)[0].folder for it in ((), ("r0", "r2"), ("r2", "r0"), ("r0",))}
    assert len(folders) == 4
