"""The blinded keys that a coordinator sees: others in every round, unless the method remembers facts."""

import pytest

from fedrel.protocol.codec import decode
from tests.parity.consortium import Consortium, read, write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("keys") / "world", "training.rounds=2", "extractor.kind=bag")


@pytest.mark.parametrize(
    ("method", "field", "lasting"),
    [
        (["method.name=lazy-mil", "method.warmup=0"], "ballot", False),
        (["method.name=evidence", "method.memory=false"], "evidence", False),
        (["method.name=evidence"], "evidence", True),
    ],
)
def test_keys_of_facts_change_from_round_to_round(world, tmp_path, method, field, lasting):
    consortium = Consortium(world, tmp_path / "homes", read(world, *method))
    seen = {}  # by round, the set of keys of every platform
    carry = consortium.carry

    def tapped(task, round_, messages, most):
        arrived = carry(task, round_, messages, most)
        for reply in map(decode, arrived.values()):
            if field in reply:
                seen.setdefault(round_, []).append(set(reply[field]["key"].tolist()))
        return arrived

    consortium.engine.carry = tapped
    consortium.begin()
    for _ in consortium.execution(tmp_path / "run").rounds():
        pass
    consortium.close()
    first, second = seen[0], seen[1]
    assert set.intersection(*first) and set.intersection(*second)  # platforms agree on the facts that they share
    for before, after in zip(first, second, strict=True):
        assert before == after if lasting else not before & after
