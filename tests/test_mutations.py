"""Every mistake in tests/mutations is noticed by the test named with it, which passes without the mistake."""

import pytest

from tests.mutations import MUTATIONS
from tests.mutations.mutation import ROOT, Copy


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Copy(tmp_path_factory.mktemp("copy"))


def test_the_text_of_every_mutation_is_in_the_source_exactly_once():
    for mutation in MUTATIONS:
        mutation.place(ROOT / "src/fedrel")
        assert mutation.old != mutation.new
    assert len({mutation.what for mutation in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.slow
def test_without_a_mutation_the_tests_pass(copy):
    assert copy.passes(mutation.test for mutation in MUTATIONS)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.what)
def test_a_mutation_is_noticed(copy, mutation):
    assert copy.notices(mutation), f"{mutation.test} passes although {mutation.what}"
