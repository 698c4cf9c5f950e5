"""What is known of runs and platforms, from statuses that may come from anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.watch import curves
from fedrel.watch.history import extended, note, thinned
from fedrel.watch.states import PLATFORM_STATES, rounds_done
from fedrel.watch.view import view
from tests.watch.small_runs import CONNECTED, NOW, line, status


def test_the_state_of_every_platform():
    found = view([status()], CONNECTED, NOW)
    assert {it.name: it.state for it in found.platforms} == {
        **{"quick": "active", "asked": "working", "slow": "late", "strict": "refused", "broken": "failed"},
        **{"absent": "late", "odd": "left out", "away": "gone", "idle": "idle"},
    }
    run = found.run()
    assert [it.name for it in run.platforms] == [
        *("away", "strict", "broken", "absent", "slow", "odd", "asked", "quick", "idle")
    ], "what needs a look comes first"
    assert run.counts["late"] == 2


def test_nobody_is_late_before_anybody_has_answered():
    alone = {"slow": {"bytes": 0, "failures": 0, "seen": 0.0, "why": "", "asked": NOW - 5000}}
    assert view([status(platforms=alone)], {"slow": {}}, NOW).platforms[0].state == "working"


def test_a_run_in_one_process_has_nobody_to_be_connected_to():
    found = view([status()], None, NOW)
    assert {it.connected for it in found.platforms} == {None}
    assert {it.name: it.state for it in found.platforms}["away"] == "idle"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"state": "running", "round": 3, "rounds": 20}, "3 of 20"),
        ({"state": "done", "round": 13, "rounds": 20}, "13"),
        ({"state": "stopped", "round": 0, "rounds": 0}, "0"),
        ({"state": "queued", "round": 0, "rounds": 0}, "not started"),
        ({"state": "starting", "round": 4, "rounds": 0}, "4"),
    ],
)
def test_how_far_a_run_has_come(fields, says):
    assert rounds_done(fields) == says
    assert view([status(**fields)], {}, NOW).runs[0].done == says


def test_the_run_at_work_is_shown_first_and_platforms_have_its_numbers():
    over = status(run="older", state="done", beat=NOW - 50, platforms={"quick": {"bytes": 1}, "left": {"bytes": 7}})
    found = view([status(), over], CONNECTED, NOW)
    assert found.run().name == "together" and found.run("older").state == "done" and found.run("none") is None
    assert {it.name: it.sent for it in found.platforms} | {"quick": 5_000, "left": 7} == {
        it.name: it.sent for it in found.platforms
    }
    assert view([over], {}, NOW).run().name == "older"
    assert view([], {"p": {}}, NOW).run() is None


def test_time_left_is_at_most_that_of_the_rounds_left():
    history = []
    for number in range(1, 5):
        history = extended(history, line(number, seconds=float(number)), "ap")
    run = view([status(history=history, round=4)], {}, NOW).runs[0]
    assert run.left == (1 + 2 + 3 + 4) / 4 * 16
    assert (run.sum("up"), run.sum("down"), run.sum("seconds")) == (4_000, 8_000, 10.0)


NUMBERS: list[object] = [None, True, -1, 10**30, float("nan"), float("inf")]
ANYTHING = [*NUMBERS, "x", [], [None], [{}], {}, {"": {}}, {"round": "x"}]


@given(st.dictionaries(st.sampled_from([*status(), "method", "queued", "place"]), st.sampled_from(ANYTHING)))
def test_a_status_of_another_version_is_shown_as_far_as_it_goes(changes):
    found = view([status(**changes)], CONNECTED, NOW)
    assert len(found.runs) == 1
    assert {it.state for it in found.platforms} <= set(PLATFORM_STATES)
    curves.charts(found.runs[0])


@pytest.mark.parametrize("value", ANYTHING)
@pytest.mark.parametrize("name", line(1))
def test_a_round_of_another_version_is_shown_as_far_as_it_goes(name, value):
    [point] = extended([], line(1), "ap")
    history = [point, {**point, "round": 2} | {key: value for key in point if key != "round"}]
    curves.charts(view([status(history=history)], {}, NOW).runs[0])


# ---------------------------------------------------------------------------------------------- history


def test_a_repeated_round_takes_the_place_of_what_was():
    history = []
    for number in (1, 2, 3, 2, 3):
        history = extended(history, line(number), "ap")
    assert [it["round"] for it in history] == [1, 2, 3]
    assert [it["all_up"] for it in history] == [1_000, 2_000, 3_000]


def test_of_very_many_rounds_every_second_is_kept_and_sums_stay():
    history = []
    for number in range(1, 2_001):
        history = extended(history, line(number), "ap")
    assert len(history) < 900 and history[-1]["round"] == 2_000 and history[-1]["all_down"] == 4_000_000
    assert thinned(range(1_000), 5) == [0, 250, 500, 749, 999]


def test_the_same_event_again_is_counted():
    events = []
    for time in range(3):
        note(events, time, 1, "no reply used", "a", "slow")
        note(events, time, 1, "no reply used", "b", "slow")
    note(events, 9, 2, "answers again", "a")
    assert [(it["platform"], it["what"], it["times"], it["time"]) for it in events] == [
        ("a", "no reply used", 3, 2),
        ("b", "no reply used", 3, 2),
        ("a", "answers again", 1, 9),
    ]
    for number in range(300):
        note(events, number, 3, "out of line", "c", str(number))
    assert len(events) == 200 and events[-1]["why"] == "299"


# ---------------------------------------------------------------------------------------------- charts


def test_charts_have_lines_where_there_are_values():
    history = []
    for number in range(1, 5):
        history = extended(history, line(number, loss=None if number == 2 else 1.0), "ap")
    run = view([status(history=history, best_round=3)], {}, NOW).runs[0]
    charts = {it.id: it for it in curves.charts(run)}
    assert list(charts) == ["score", "loss", "selection", "bytes"]
    [score] = charts["score"].curves
    assert score.stretches == ["56,127.5 180.7,89 305.3,50.5 430,12"]
    assert charts["score"].best == score.dots[2][0]
    assert charts["score"].said == "dev ap, rounds 1 to 4; latest: 0.100"
    [loss] = charts["loss"].curves
    assert [len(it.split()) for it in loss.stretches] == [2] and len(loss.dots) == 3, "round 2 is a gap"
    assert [it.name for it in charts["selection"].curves] == ["selected", "all"]
    assert [label for _, label in charts["bytes"].up] == ["0 B", "500 B", "1 KB", "1.5 KB", "2 KB"]


def test_a_single_round_is_a_dot():
    run = view([status(history=extended([], line(1), "ap"), best_round=0)], {}, NOW).runs[0]
    charts = {it.id: it for it in curves.charts(run)}
    assert set(charts) == {"score", "loss", "bytes"}
    assert charts["score"].curves[0].stretches == [] and len(charts["score"].curves[0].dots) == 1
    assert curves.charts(view([status()], {}, NOW).runs[0]) == []
