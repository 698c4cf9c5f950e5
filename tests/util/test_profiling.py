"""Where the time goes."""

import threading
import time

from fedrel.util.profiling import phase, timed, watched, watching


def test_nobody_watches_unless_asked():
    with phase("train"):
        pass
    assert watched() is None


def test_a_phase_inside_another_is_taken_out_of_it():
    with watching() as phases:
        with phase("score"):
            time.sleep(0.02)
            with phase("codec"):
                time.sleep(0.05)
        assert watched() == phases.seconds
    assert watched() is None
    assert 0.02 <= phases.seconds["score"] < 0.05 <= phases.seconds["codec"]


def test_all_that_evaluation_uses_is_evaluation():
    @timed("score")
    def score():
        time.sleep(0.01)

    with watching() as phases:
        with phase("evaluate"):
            score()
        score()
    assert phases.seconds["evaluate"] >= 0.01
    assert phases.seconds["score"] >= 0.01


def test_a_phase_within_itself_and_one_that_fails_count_once():
    with watching() as phases:
        try:
            with phase("data"), phase("data"):
                raise ValueError
        except ValueError:
            pass
        with phase("train"):
            time.sleep(0.01)
    assert phases.seconds["data"] < 0.01 <= phases.seconds["train"]


def test_threads_count_their_own_time():
    def work():
        with phase("train"):
            time.sleep(0.05)

    with watching() as phases:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert phases.seconds["train"] >= 0.15
