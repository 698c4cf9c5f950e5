"""Every training sentence has exactly one holder, and each kind of partition is as uneven as it says."""

import hashlib
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fedrel.config import Partition
from fedrel.corpus import NA, Instance, Mention, classification, opennre
from fedrel.corpus.tokens import tokenize
from fedrel.data.building import build
from fedrel.data.partition import divide, iid, platform_names, require_names, unevenness, write_parts
from fedrel.errors import UserError
from tests.instances import ODD, items, sentence, sentences

RELATIONS = [NA, "r", "s", "t", "u"]
IID_10_3_1 = [[2, 4, 5, 8], [0, 3, 7], [1, 6, 9]]
IID_9857_20_1 = "3a9502753450de0b"  # of all platforms' rows, one after another


def data(labels, sources=None, relations=RELATIONS, names=("a", "b", "c")) -> Any:
    """As much of a data set as a partition looks at."""
    labels = np.asarray(labels, dtype=np.int32)
    sources = np.zeros_like(labels) if sources is None else np.asarray(sources, dtype=np.int32)
    return SimpleNamespace(
        train=SimpleNamespace(labels=labels, sources=sources), relations=list(relations), sources=list(names)
    )


def world(sentences=3000, seed=0, relations=5):
    """Labels as data has them: half of the sentences NA."""
    draw = np.random.default_rng(seed)
    return data(draw.choice(relations, sentences, p=[0.5, *[0.5 / (relations - 1)] * (relations - 1)]))


def lists(division):
    return {name: rows.tolist() for name, rows in division.platforms.items()} | {"server": division.server.tolist()}


def sizes(division):
    return [len(rows) for rows in division.platforms.values()]


def require_whole(division, dataset):
    """Every row once, ascending, platforms by name."""
    held = [*division.platforms.values(), division.server]
    assert np.sort(np.concatenate(held)).tolist() == list(range(len(dataset.train.labels)))
    assert all((np.diff(rows) > 0).all() and rows.dtype == np.int64 for rows in held)
    assert list(division.platforms) == sorted(division.platforms)


label_lists = st.lists(st.integers(0, 4), min_size=1, max_size=60)
alphas = st.sampled_from([1e-320, 1e-9, 0.01, 0.1, 0.5, 1.0, 10.0, 1e6])
shares = st.sampled_from([0.0, 0.05, 0.3, 0.9])


@given(label_lists, st.integers(1, 12), alphas, st.integers(1, 6), shares, st.integers(0, 3))
@example([0] * 60, 12, 1e-320, 5, 0.0, 0)  # one class, all of it drawn for one platform
@example([1, 2, 3, 4, 0], 5, 0.01, 1, 0.0, 0)  # as many platforms as sentences
@example([0], 1, 0.01, 1, 0.0, 0)
def test_dirichlet_keeps_every_row_and_the_minimum(labels, platforms, alpha, minimum, share, seed):
    dataset = data(labels)
    left = len(labels) - round(share * len(labels))
    assume(0 < left >= platforms * minimum and (not share or left < len(labels)))
    settings = Partition("dirichlet", platforms, alpha, minimum, share)
    division = divide(dataset, settings, seed)
    require_whole(division, dataset)
    assert list(division.platforms) == platform_names(platforms)
    assert min(sizes(division)) >= minimum
    assert lists(divide(dataset, settings, seed)) == lists(division)


@given(label_lists, st.integers(1, 12), shares, st.integers(0, 3))
def test_iid_keeps_every_row_and_is_even(labels, platforms, share, seed):
    dataset = data(labels)
    left = len(labels) - round(share * len(labels))
    assume(left >= platforms and (not share or left < len(labels)))
    division = divide(dataset, Partition("iid", platforms, server=share), seed)
    require_whole(division, dataset)
    assert max(sizes(division)) - min(sizes(division)) <= 1
    assert lists(divide(dataset, Partition("iid", platforms, server=share), seed)) == lists(division)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=2, max_size=40), shares, st.integers(0, 3))
def test_sources_and_relations_keep_every_row(rows, share, seed):
    dataset = data(*zip(*rows, strict=True))
    for kind in ("source", "relation"):
        try:
            division = divide(dataset, Partition(kind, server=share), seed)
        except UserError as error:
            assert re.search("same source|relation only|no relation|is none|leaves the platforms none", str(error))
            continue
        require_whole(division, dataset)
        assert min(sizes(division)) >= 1


def test_iid_is_what_it_always_was():
    assert [part.tolist() for part in iid(10, 3, 1)] == IID_10_3_1
    division = divide(data([0, 1] * 5), Partition("iid", 3), 1)
    assert lists(division) == dict(zip(("p0", "p1", "p2"), IID_10_3_1, strict=True)) | {"server": []}
    rows = np.concatenate(list(divide(world(9857), Partition(), 1).platforms.values()))
    assert hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()[:16] == IID_9857_20_1


def test_other_seeds_give_other_partitions():
    for settings in (Partition("iid", 4), Partition("dirichlet", 4), Partition("relation"), Partition(server=0.1)):
        one, other = (lists(divide(world(), settings, seed)) for seed in (1, 2))
        assert one != other


def test_a_large_alpha_is_even_and_a_tiny_one_concentrates():
    distances = []
    for alpha in (1e6, 1.0, 0.01):
        division = divide(world(), Partition("dirichlet", 10, alpha), 1)
        counts = division.label_counts(world())
        assert counts.shape == (10, 5) and counts.sum() == 3000
        distances.append(unevenness(counts))
        largest = (counts / counts.sum(axis=0)).max(axis=0)  # (R,) how much of a label one platform has
        if alpha == 1e6:
            assert max(sizes(division)) - min(sizes(division)) < 15
            assert largest.max() < 0.12
        if alpha == 0.01:
            assert np.median(largest) > 0.9
    assert distances[0] < 0.02 < 0.2 < distances[1] < 2 * distances[1] < distances[2]


def test_unevenness_has_known_values():
    assert unevenness(np.array([[3, 1], [30, 10]])) == 0
    assert unevenness(np.array([[5, 0], [0, 5]])) == 0.5
    assert unevenness(np.eye(4, dtype=np.int64) * 7) == 0.75


def test_rare_labels_do_not_all_go_to_the_same_platform():
    holders = set()
    for seed in range(40):
        division = divide(data([0] * 50 + [1]), Partition("dirichlet", 5, 0.5), seed)
        holders |= {name for name, rows in division.platforms.items() if 50 in rows}
    assert holders == set(platform_names(5))


def test_a_minimum_beyond_luck_is_filled_up_from_the_largest():
    division = divide(world(100), Partition("dirichlet", 10, 0.01, minimum=10), 1)
    assert sizes(division) == [10] * 10
    lucky, helped = (sizes(divide(world(), Partition("dirichlet", 50, 0.01, minimum=m), 1)) for m in (1, 5))
    assert sum(size < 5 for size in lucky) > 10
    assert min(helped) == 5 and max(helped) > 100


def test_the_minimum_changes_nothing_where_luck_suffices():
    one, other = (lists(divide(world(), Partition("dirichlet", 4, 10.0, minimum=m), 1)) for m in (1, 100))
    assert one == other


def test_a_platform_for_each_source():
    names = ["Zürich, ward 3", "zurich/ward 3", "server", "", "unused", "../..", "北京", "Zurich-ward-3-2", "x" * 500]
    numbers = [0, 1, 2, 3, 5, 6, 7, 8]
    dataset = data([1] * 16, sources=numbers * 2, names=names)
    division = divide(dataset, Partition("source", platforms=3), 1)
    require_whole(division, dataset)
    assert len(division.platforms) == 8
    assert len({name.lower() for name in division.platforms} | {"server"}) == 9
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}", name) for name in division.platforms)
    assert {"Zurich-ward-3-2", "server-2", "unnamed"} <= division.platforms.keys()
    held = {frozenset(rows.tolist()) for rows in division.platforms.values()}
    assert held == {frozenset({place, place + 8}) for place in range(8)}


def test_names_do_not_depend_on_the_order_in_which_sources_were_met():
    one = divide(data([1, 1, 1], [0, 1, 2], names=["a b", "a-b", "c"]), Partition("source"), 1)
    other = divide(data([1, 1, 1], [2, 1, 0], names=["c", "a-b", "a b"]), Partition("source"), 1)
    assert lists(one) == lists(other) == {"a-b": [0], "a-b-2": [1], "c": [2], "server": []}


def test_a_platform_for_each_relation_and_na_for_all():
    dataset = world(1000)
    division = divide(dataset, Partition("relation", platforms=3), 1)
    require_whole(division, dataset)
    assert list(division.platforms) == ["r", "s", "t", "u"]
    counts = division.label_counts(dataset)
    assert (counts[:, 1:] > 0).tolist() == np.eye(4, dtype=bool).tolist()
    assert counts[:, 0].max() - counts[:, 0].min() <= 1


def test_without_an_na_class_the_first_label_is_a_relation_like_others():
    dataset = data([0, 1, 2, 0, 1, 2], relations=["q/a", "q/b", "q/c"])
    division = divide(dataset, Partition("relation"), 1)
    assert lists(division) == {"q-a": [0, 3], "q-b": [1, 4], "q-c": [2, 5], "server": []}
    require_whole(divide(dataset, Partition("dirichlet", 2), 1), dataset)


@given(label_lists, st.sampled_from([0.05, 0.2, 0.5, 0.9]), st.integers(0, 3))
@example([0] * 50 + [1, 2, 3, 4], 0.1, 0)
@example([0] * 50 + [1, 2, 3, 4], 0.05, 0)
def test_the_servers_share_has_every_label_where_there_is_room(labels, share, seed):
    wanted = round(share * len(labels))
    assume(0 < wanted < len(labels))
    dataset = data(labels)
    server = divide(dataset, Partition("iid", 1, server=share), seed).server
    assert len(server) == wanted
    assert len(set(dataset.train.labels[server])) == min(wanted, len(set(labels)))


def test_a_large_server_set_has_labels_in_proportion():
    dataset = world(10_000)
    division = divide(dataset, Partition("dirichlet", 5, server=0.1), 1)
    got = np.bincount(dataset.train.labels[division.server], minlength=5)
    assert np.abs(got - np.bincount(dataset.train.labels) / 10).max() <= 1
    require_whole(division, dataset)


@pytest.mark.parametrize(
    ("labels", "settings", "sentence_"),
    [
        ([1] * 5, Partition("iid", 6), "6 platforms for 5 training sentences; set partition.platforms to at most the"),
        ([1] * 5, Partition("dirichlet", 6), "6 platforms for 5 training sentences; set partition.platforms to at"),
        ([1] * 10, Partition("iid", 6, server=0.5), "6 platforms for 5 training sentences"),
        ([1] * 10, Partition("dirichlet", 3, minimum=4), "3 platforms with at least 4 sentences each need 12 training"),
        ([1, 2], Partition("source"), "all training sentences have the same source; tell sources apart in the data"),
        ([0, 2], Partition("relation"), "the platforms' training sentences have 1 relation only; set partition.kind"),
        ([0, 0, 1], Partition("relation", server=0.7), "training sentences have no relation; set partition.kind to"),
        ([1, 2, 3], Partition(server=0.1), "partition.server = 0.1 of 3 training sentences is none; set it higher"),
        ([1], Partition(platforms=1, server=0.9), "= 0.9 of 1 training sentences leaves the platforms none; set it"),
    ],
)
def test_what_cannot_be_divided_is_refused_in_one_sentence(labels, settings, sentence_):
    with pytest.raises(UserError, match=re.escape(sentence_)) as refusal:
        divide(data(labels), settings, 1)
    assert "\n" not in str(refusal.value)


def test_of_a_folder_of_platforms_everyone_holds_their_own():
    dataset = data([1, 2, 0, 1, 3])
    dataset.held = {"a": 2, "b": 1, "coordinator": 2}
    division = divide(dataset, Partition("folder"), 1)
    assert lists(division) == {"a": [0, 1], "b": [2], "server": [3, 4]}
    require_whole(division, dataset)
    dataset.held = {"a": 2, "b": 3}
    assert lists(divide(dataset, Partition("folder"), 7)) == {"a": [0, 1], "b": [2, 3, 4], "server": []}
    with pytest.raises(
        UserError, match=r"^partition\.server = 0\.2, but the folder coordinator holds no training file"
    ):
        divide(dataset, Partition("folder", server=0.2), 1)
    dataset.held = {}
    with pytest.raises(UserError, match=r'^partition\.kind = "folder" needs a folder of platforms as data\.path'):
        divide(dataset, Partition("folder"), 1)


@pytest.mark.parametrize("name", ["", ".", "a.b", "a b", "-a", "é", "x" * 49, "a/b", "a\n"])
def test_a_name_that_is_not_safe_everywhere_is_refused(name):
    with pytest.raises(UserError) as refusal:
        require_names(["a", name], "here")
    assert str(refusal.value).startswith(f'here: "{name}" cannot be the name of a platform; use up to 48 letters')


def test_names_that_others_have_are_refused():
    require_names(["a", "x" * 48, "A-1", "b_2"], "here")
    for name in ("server", "Coordinator", "ADMIN", "keeper", "ca"):
        with pytest.raises(UserError, match=f'^here: "{name}" cannot be the name .* since another party has it'):
            require_names([name], "here")
    with pytest.raises(UserError, match=r'^here: "ward" and "Ward" differ in upper and lower case alone; rename one$'):
        require_names(["ward", "Ward"], "here")


@given(st.lists(st.text(max_size=70), min_size=2, max_size=8, unique=True))
def test_the_names_made_for_sources_are_safe_everywhere(names):
    numbers = range(len(names))
    require_names(divide(data([1] * len(names), numbers, names=names), Partition("source"), 1).platforms, "here")


def test_what_is_written_as_files_is_what_was_held(tmp_path):
    made = [*sentences(9), *(sentence(f"x{n}", "y", "q", ODD, "ward", n % 2 == 0) for n in range(3))]
    splits = {"train": lambda: made, "dev": lambda: sentences(2), "test": lambda: [sentence()]}
    stored = build(tmp_path / "d", splits)
    division = divide(stored, Partition("iid", 3, server=0.2), 1)
    (tmp_path / "o").mkdir()
    assert write_parts(stored, division, tmp_path / "o") == "opennre"
    for name, rows in [*division.platforms.items(), ("coordinator", division.server)]:
        assert list(items(opennre.read, tmp_path / "o" / name / "train.jsonl")) == [made[row] for row in rows]
    assert list(items(opennre.read, tmp_path / "o" / "coordinator" / "dev.jsonl")) == sentences(2)
    assert list(items(opennre.read, tmp_path / "o" / "coordinator" / "test.jsonl")) == [sentence()]


def test_a_server_without_sentences_gets_no_training_file(tmp_path):
    stored = build(tmp_path / "d", {"train": lambda: sentences(9), "test": lambda: [sentence()]})
    write_parts(stored, divide(stored, Partition("iid", 2), 1), tmp_path)
    assert sorted(path.name for path in (tmp_path / "coordinator").iterdir()) == ["dev.jsonl", "test.jsonl"]


@given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), min_size=1, max_size=6))
def test_texts_are_read_back_word_for_word(tmp_path_factory, rows):
    """As a reader of texts would have them: tokens of a text, and a label without tabs, line ends and outer space."""
    folder = tmp_path_factory.mktemp("texts")
    texts = [(tokenize(text)[0], " ".join(label.split())) for text, label in rows]
    texts = [(tokens, label) for tokens, label in texts if tokens and label and "\0" not in "".join([*tokens, label])]
    nowhere = Mention("i", 0, 0)
    made = [Instance(tokens, nowhere, nowhere, label) for tokens, label in [*texts, (["text"], "label"), (["a"], "b")]]
    stored = build(folder / "d", dict.fromkeys(("train", "test"), lambda: made), na=False, has_pairs=False)
    assert write_parts(stored, divide(stored, Partition("iid", 1), 1), folder) == "classification"
    found = list(items(classification.read, folder / "p0" / "train.tsv"))
    assert [(it.tokens, it.label) for it in found] == [(it.tokens, it.relation) for it in made]


def test_a_stored_data_set_is_divided_as_well(tmp_path):
    made = [*sentences(30), *(sentence(f"x{n}", "y", "q", source="ward 1") for n in range(9))]
    stored = build(tmp_path / "d", {"train": lambda: made, "test": lambda: [sentence()]})
    for kind in ("iid", "dirichlet", "source", "relation"):
        division = divide(stored, Partition(kind, 4, server=0.1), 1)
        require_whole(division, stored)
        assert division.label_counts(stored).shape == (len(division.platforms), len(stored.relations))
    assert list(divide(stored, Partition("source"), 1).platforms) == ["unnamed", "ward-1"]
    assert list(divide(stored, Partition("relation"), 1).platforms) == ["q", "r0", "r2"]
