"""A person is told how long a frozen encoder reads."""

import pytest

from fedrel.experiment.reading_time import reading_watcher


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_the_time_that_reading_takes_is_said_once_and_where_it_stands_is_shown(clock):
    shown, said = [], []
    watch = reading_watcher(shown.append, said.append)
    for second in range(1, 11):
        clock[0] = float(second)
        watch(100 * second, 10_000)
    assert shown[0] == "reading sentence 100 of 10,000"
    assert len(shown) == 10
    [line] = said
    # by the third call two seconds have passed, for 300 sentences
    assert line == "the pretrained encoder reads 10,000 sentences, each once: about 65 s"


def test_what_is_quick_is_not_worth_a_line(clock):
    said = []
    watch = reading_watcher(lambda line: None, said.append)
    for step in range(1, 11):
        clock[0] = 0.2 * step
        watch(10 * step, 100)
    assert said == []
