"""γ̂ and δ̂ from verdicts: the counts, the intervals, what is done for users with few judgments, and the command."""

import json
import random
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedrel.cli.estimate import estimate
from fedrel.cli.frame import guarded
from fedrel.config import Data
from fedrel.data import loading
from fedrel.errors import UserError
from fedrel.feedback.estimates import (
    GradedVerdict,
    Prior,
    estimate_users,
    fit_prior,
    read_verdicts,
    wilson,
    write_users,
)
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import VERDICTS, Store
from fedrel.feedback.users import User, read_users
from fedrel.report.feedback_figures import users_figure
from tests.review.browser.small_platform import write_texts

app = typer.Typer()
app.command()(guarded(estimate))


def verdicts(user="w", **counts):
    """n1=3 gives three times the first of the paper's six cases."""
    cases = {f"n{2 * i + (1 if correct else 2)}": (it, correct) for i, it in enumerate(VERDICTS) for correct in (1, 0)}
    return [GradedVerdict(user, cases[name][0], bool(cases[name][1])) for name, n in counts.items() for _ in range(n)]


def crowd(users=60, seed=1):
    """Users whose γ is Beta(8, 2) and whose δ is always 0.6, with 1 to 80 judgments."""
    chance = random.Random(seed)
    found = []
    for number in range(users):
        gamma = chance.betavariate(8, 2)
        for _ in range(chance.randint(1, 80)):
            correct = chance.random() < 0.7
            good = chance.random() < (gamma if correct else 0.6)
            found.append(GradedVerdict(f"w{number}", "right" if good == correct else "wrong", correct))
    return found


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_the_six_cases_of_the_paper():
    found = estimate_users(verdicts(n1=6, n2=2, n3=3, n4=5, n5=1, n6=3)).users[0]
    assert found.counts == {"n1": 6, "n2": 2, "n3": 3, "n4": 5, "n5": 1, "n6": 3}
    assert found.gamma.value == pytest.approx(6 / 10)
    assert found.delta.value == pytest.approx(5 / 10)
    assert found.unknown == pytest.approx(4 / 20)
    assert found.errors == pytest.approx(5 / 16)


def test_of_what_was_never_seen_nothing_is_known():
    found = estimate_users([*verdicts("a", n1=3), *verdicts("b", n1=8, n3=2)])
    a = found.users[1]
    assert (a.user, a.delta.value, a.delta.low, a.delta.high, a.delta.shrunk) == ("a", None, 0, 1, 0.5)
    assert found.pooled.delta.value is None
    assert found.delta == Prior(0.5, 2.0)
    assert estimate_users(verdicts(n5=2)).users[0].errors is None


def test_wilsons_interval():
    assert wilson(8, 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    assert wilson(0, 10) == pytest.approx((0, 0.2775328), abs=1e-6)
    assert wilson(10, 10)[1] == 1
    assert wilson(0, 0) == (0, 1)


@given(st.integers(0, 500), st.integers(0, 500))
def test_an_interval_holds_its_rate(times, rest):
    low, high = wilson(times, times + rest)
    assert 0 <= low < high <= 1
    if times + rest:
        assert low <= times / (times + rest) <= high


def test_the_prior_is_found_again():
    chance = random.Random(1)
    cases = []
    for _ in range(2_000):
        rate = chance.betavariate(6, 2)
        cases.append((sum(chance.random() < rate for _ in range(25)), 25))
    found = fit_prior(cases)
    assert found.mean == pytest.approx(0.75, abs=0.01)
    assert found.strength == pytest.approx(8, rel=0.12)


def test_users_who_are_all_alike_are_pooled():
    assert fit_prior([(7, 10)] * 30).strength > 1_000
    assert fit_prior([(7, 10)] * 30).mean == pytest.approx(0.7, abs=1e-3)
    assert fit_prior([(0, 10)] * 10 + [(10, 10)] * 10).strength < 0.3  # as unlike as can be


def test_the_fewer_judgments_the_more_is_borrowed():
    found = estimate_users([*crowd(), *verdicts("few", n3=2), *verdicts("many", n3=60)])
    by_name = {it.user: it.gamma for it in found.users}
    assert by_name["few"].value == by_name["many"].value == 0
    assert by_name["few"].shrunk > 0.4
    assert by_name["many"].shrunk < 0.15
    assert [it.judgments for it in found.users] == sorted((it.judgments for it in found.users), reverse=True)


def test_shrunk_rates_are_nearer_to_the_truth():
    chance = random.Random(5)
    truth, said = {}, []
    for number in range(150):
        truth[f"w{number}"] = chance.betavariate(6, 3)
        n1 = sum(chance.random() < truth[f"w{number}"] for _ in range(6))
        said += verdicts(f"w{number}", n1=n1, n3=6 - n1)
    users = estimate_users(said).users
    raw = sum((it.gamma.value - truth[it.user]) ** 2 for it in users if it.gamma.value is not None)
    assert sum((it.gamma.shrunk - truth[it.user]) ** 2 for it in users) < 0.7 * raw


def test_the_pooled_interval_allows_for_users_who_differ():
    alike = estimate_users([it for u in range(10) for it in verdicts(f"w{u}", n1=5, n3=5)]).pooled.gamma
    unlike = estimate_users([it for u in range(10) for it in verdicts(f"w{u}", **{f"n{1 + 2 * (u % 2)}": 10})])
    assert alike.value == unlike.pooled.gamma.value == 0.5
    assert unlike.pooled.gamma.high - unlike.pooled.gamma.low > 2 * (alike.high - alike.low)


def test_a_table_of_users_is_written_as_it_is_read(tmp_path):
    found = estimate_users([*crowd(12), *verdicts('a "odd", b', n1=3, n4=2)])
    for name in ("users.csv", "users.tsv"):
        write_users(found, tmp_path / name)
        read = [user for user, _ in read_users(tmp_path / name)]
        assert read == [User(round(it.gamma.shrunk, 6), round(it.delta.shrunk, 6)) for it in found.users]


def test_the_same_verdicts_in_three_formats(tmp_path):
    rows = [("a", "right", True), ("b", "unknown", False), ("a", "wrong", True)]
    json_rows = "".join(json.dumps({"user": u, "verdict": v, "correct": c, "id": 3}) + "\n" for u, v, c in rows)
    lines = write(tmp_path / "v.jsonl", json_rows)
    commas = write(tmp_path / "v.csv", "verdict,user,id,correct\n" + "".join(f"{v},{u},3,{c}\n" for u, v, c in rows))
    tabs = write(tmp_path / "v.tsv", "user\tverdict\tcorrect\n" + "".join(f"{u}\t{v}\t{c}\n" for u, v, c in rows))
    assert list(read_verdicts(lines)) == list(read_verdicts(commas)) == list(read_verdicts(tabs)) == rows


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "v.jsonl",
            '{"user": "a", "verdict": "yes", "correct": true}',
            'v.jsonl:1: "verdict" is "yes"; it must be right',
        ),
        ("v.jsonl", '{"user": "a", "verdict": "right"}', 'v.jsonl:1: "correct" is missing; it must be true or false'),
        ("v.jsonl", '{"user": "a", "verdict": "right", "correct": 1}', 'v.jsonl:1: "correct" is "1"'),
        ("v.jsonl", '{"user": "a\\nb", "verdict": "right", "correct": true}', 'v.jsonl:1: "user" must be a name'),
        ("v.jsonl", '\n{"user": 7, "verdict": "right", "correct": true}', 'v.jsonl:2: "user" must be a name'),
        ("v.jsonl", "[]", "v.jsonl:1: not a JSON object"),
        ("v.csv", "user,verdict\n", 'v.csv:1: the column "correct" is missing'),
        ("v.csv", "user,verdict,correct\na,right,yes\n", 'v.csv:2: "correct" is "yes"; it must be true or false'),
        ("v.txt", "", "v.txt: a verdict file ends in .jsonl, .csv or .tsv"),
        ("v.csv", "user,verdict,correct\n", "v.csv: no verdicts to estimate from"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path, name, content, sentence):
    path = write(tmp_path / name, content)
    done = CliRunner().invoke(app, [str(path)])
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    with pytest.raises(UserError):
        estimate_users(read_verdicts(path))


def test_the_command_for_people_and_for_machines(tmp_path):
    rows = [*crowd(30), *verdicts("[b]bold", n1=200, n6=50)]
    content = "".join(json.dumps({**it._asdict()}) + "\n" for it in rows)
    path = write(tmp_path / "verdicts.jsonl", content)
    users, png = tmp_path / "users.csv", tmp_path / "spread.png"
    done = CliRunner().invoke(app, [str(path), "--users", str(users), "--png", str(png)], env={"COLUMNS": "140"})
    assert done.exit_code == 0, done.output
    assert "[b]bold" in done.output
    assert "11 users with fewer judgments are not shown" in done.output
    assert png.read_bytes().startswith(b"\x89PNG")
    assert len(read_users(users)) == 31
    said = json.loads(CliRunner().invoke(app, [str(path), "--json"]).stdout)
    assert len(said["users"]) == 31
    first = said["users"][0]
    assert (first["user"], first["judgments"], first["unknown"]) == ("[b]bold", 250, 0.2)
    assert first["gamma"]["value"] == 1
    assert first["delta"]["value"] == 0
    assert set(said["prior"]["gamma"]) == {"mean", "strength"}
    assert 0 < said["mean"]["gamma"] < 1
    assert "user" not in said["pooled"]


def test_the_figure_of_several_groups(tmp_path):
    lone = estimate_users(verdicts(n1=1))
    users_figure({"cause": estimate_users(crowd(5)), "$treat$": lone, "": lone}, tmp_path / "users.png")
    assert (tmp_path / "users.png").stat().st_size > 10_000


def test_from_a_store_and_data_with_true_labels(tmp_path, fedrel, refused):
    data, store = write_texts(tmp_path / "texts"), tmp_path / "p.sqlite"
    dataset = loading.load(Data(source="classification", path=str(data)))
    with Store.open(store) as opened:
        for row in range(8):
            key = sentence_key(dataset.sentence(dataset.train, row), [0, 0, 0, 0])
            label = dataset.relations[dataset.train.labels[row]]
            number = opened.show(key, "good", 0.9, "model")
            opened.give(number, "ann", "unknown" if row < 2 else "right" if label == "good" else "wrong")
            opened.give(number, "eve", "right")
        opened.give(opened.show("elsewhere", "good", 0.9, "model"), "ann", "right")
    done = fedrel("feedback", "estimate", store, "--data", data, "--json")
    users = {it["user"]: it for it in json.loads(done.out)["users"]}
    assert users["ann"]["counts"] == {"n1": 3, "n2": 0, "n3": 0, "n4": 3, "n5": 1, "n6": 1}
    assert users["eve"]["counts"] == {"n1": 4, "n2": 4, "n3": 0, "n4": 0, "n5": 0, "n6": 0}
    assert f"1 of 17 verdicts are on sentences that {data} does not have" in " ".join(done.err.split())
    assert "a store needs --data with true labels" in refused("feedback", "estimate", store)
    other = write_texts(tmp_path / "other")
    for file in other.glob("*.tsv"):
        file.write_text(file.read_text().replace("film", "play"))
    assert "none of its 17 verdicts is about a sentence of" in refused("feedback", "estimate", store, "--data", other)
