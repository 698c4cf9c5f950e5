"""Where nobody says whether sums are secure: in a federation they are, if anything allows it."""

import pytest

from fedrel import config
from fedrel.experiment.assembly import complete
from fedrel.experiment.parties import federated
from fedrel.experiment.results import as_it_was
from fedrel.experiment.sums import sum_notes
from fedrel.experiment.sums_by_default import with_sums

FILES = ["data.source=opennre", "data.path=x", "extractor.vectors=glove", "partition.server=0.2"]
PLATFORMS = ("p0", "p1", "p2")


def settled(*settings, platforms=PLATFORMS):
    """The experiment of a federation, and what was said."""
    table = federated(config.override({}, [*FILES, *settings]))
    said = []
    return with_sums(complete(config.parse(table)), platforms, say=said.append), said


@pytest.mark.parametrize("method", ["evidence", "lazy-mil", "none", "att", "feddyn", "feedback"])
def test_a_federation_has_secure_sums_without_anybody_asking(method):
    experiment, said = settled(f"method.name={method}")
    assert experiment.privacy.sums == "secure" and experiment.robust.screening == "off"
    assert len(said) == 1 and said[0].startswith("secure sums: the coordinator sees what platforms send added up")


@pytest.mark.parametrize(
    ("settings", "platforms", "why"),
    [
        (["method.name=fedatt"], PLATFORMS, "fedatt looks at the reply of every platform"),
        (["method.name=feded"], PLATFORMS, "feded sends log, which cannot be added up"),
        (["robust.aggregation=median"], PLATFORMS, 'robust.aggregation = "median" compares single updates'),
        (["robust.screening=report"], PLATFORMS, 'robust.screening = "report" looks at single updates'),
        (["privacy.least=4"], PLATFORMS, "3 platforms take part in a round, and no sum over fewer than 4 is opened"),
        (["training.fraction=0.5"], ("a", "b", "c", "d"), "2 platforms take part in a round"),
    ],
)
def test_where_they_cannot_be_one_sentence_says_why_and_what_leaves(settings, platforms, why):
    experiment, said = settled(*settings, platforms=platforms)
    assert experiment.privacy.sums == "off"
    assert len(said) == 1 and "\n" not in said[0]
    assert said[0].startswith("no secure sums, so the coordinator sees what each platform sends") and why in said[0]
    assert sum_notes(experiment)[0].startswith("no secure sums")


@pytest.mark.parametrize("named", ["off", "secure"])
def test_what_an_experiment_names_stands(named):
    experiment, said = settled(f"privacy.sums={named}")
    assert experiment.privacy.sums == named and not said


def test_other_simulations_have_none():
    experiment = with_sums(complete(config.read(None, [])), [f"p{number}" for number in range(20)])
    assert experiment.privacy.sums == "off" and experiment.robust.screening == "leave-out"
    assert not sum_notes(experiment)


def test_a_platform_that_trains_alone_is_told_nothing():
    experiment, said = settled(platforms=("p0",))
    assert experiment.privacy.sums == "off" and not said


def test_a_run_that_was_begun_before_there_were_sums_goes_on_without():
    assert as_it_was("[extractor]\nhide_names = 0.3\n") == ["privacy.sums=off"]
    assert as_it_was("[extractor]\nhide_names = 0.3\n[privacy]\nsums = 'secure'\n") == []
