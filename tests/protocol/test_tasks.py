"""Running a task: what a platform remembers of it, and until when."""

from dataclasses import dataclass

import pytest

from fedrel.algorithms import FedAvg
from fedrel.errors import UserError
from fedrel.protocol import Ask, number_in
from fedrel.protocol.tasks import answer, task
from tests.algorithms.made_up import a_site


@dataclass(frozen=True)
class Noting(FedAvg):
    """Counts its requests, for good in its memory and by round in its scratch."""

    @task
    def note(self, site, message):
        for notes in (site.memory, site.scratch):
            notes["requests"] = notes.get("requests", 0.0) + 1
        if message.get("fails"):
            raise ValueError("as asked")
        return {"memory": site.memory["requests"], "scratch": site.scratch["requests"]}

    @task
    def recall(self, site, message):
        return {"requests": number_in(site.scratch, "requests")}

    @task
    def misspell(self, site, message):
        return {"requests": number_in(site.scratch, "request")}


def test_scratch_ends_with_its_round_and_memory_does_not():
    site, _ = a_site(range(3))
    replies = [answer(Noting(), site, Ask("note", {}, round_), {}) for round_ in (0, 0, 1, 1, 4)]
    assert [reply["memory"] for reply in replies] == [1, 2, 3, 4, 5]
    assert [reply["scratch"] for reply in replies] == [1, 2, 1, 2, 1]


def test_a_task_that_fails_leaves_both_as_they_were():
    site, _ = a_site(range(3))
    answer(Noting(), site, Ask("note", {}, 0), {})
    with pytest.raises(ValueError, match="as asked"):
        answer(Noting(), site, Ask("note", {}, 0), {"fails": 1.0})
    assert site.memory == site.scratch == {"requests": 1.0}


def test_a_platform_that_was_started_again_in_the_middle_of_a_round_says_so():
    site, _ = a_site(range(3))
    answer(Noting(), site, Ask("note", {}, 0), {})
    assert answer(Noting(), site, Ask("recall", {}, 0), {}) == {"requests": 1.0}
    with pytest.raises(KeyError, match="'request'"):  # a mistake in the method
        answer(Noting(), site, Ask("misspell", {}, 0), {})
    again, _ = a_site(range(3))
    with pytest.raises(
        UserError, match=r"requests neither: the platform was started again in the middle of it, .* next"
    ):
        answer(Noting(), again, Ask("recall", {}, 0), {})
