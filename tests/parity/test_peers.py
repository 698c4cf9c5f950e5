"""`benchmarks.peers` compares like with like: its two sides are the same federation."""

import subprocess
import sys

import pytest
import torch

from benchmarks import peers, plain
from fedrel.util.parallel import cores

TOY = peers.Work(
    text="random",
    platforms=3,
    sentences=20,
    rounds=2,
    epochs=2,
    batch=8,
    lr=0.3,
    vocabulary=300,
    precision="float64",
)


def dense_federation(federation):
    """FedAvg over the plain padded loop, from what Flower's side is given."""
    work = federation.work
    weights = plain.plain_weights(federation.weights)
    sizes = {name: len(site.shard) for name, site in federation.sites.items()}
    for number in range(work.rounds):
        mean = {name: torch.zeros_like(value) for name, value in weights.items()}
        for site in federation.sites.values():
            model = plain.PlainPCNN(work.vocabulary, work.relations, dropout=0.0).to(torch.float64)
            model.load_state_dict(weights)
            batches = [some for order in federation.orders(site)[number] for some in torch.split(order, work.batch)]
            plain.train(model, plain.pad(site.shard), batches, lr=work.lr, weight_decay=work.weight_decay)
            for name, value in model.state_dict().items():
                mean[name] += value * (sizes[site.name] / sum(sizes.values()))
        weights = mean
    return weights


def test_our_side_ends_with_the_weights_of_dense_training_in_the_same_order():
    federation = peers.Federation.of(TOY)
    assert len({len(site.shard) for site in federation.sites.values()}) > 1  # so that the weights of the mean matter
    ours, *_ = peers.simulate(federation, workers=2)
    theirs = dense_federation(peers.Federation.of(TOY))
    for name, value in plain.plain_weights(ours).items():
        torch.testing.assert_close(value, theirs[name], rtol=0, atol=1e-12)
        assert not torch.equal(value, plain.plain_weights(federation.weights)[name])


def test_what_flower_users_write_needs_nothing_of_ours():
    code = "import sys, benchmarks.plain; sys.exit(any(name.split('.')[0] == 'fedrel' for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], cwd=peers.ROOT, check=True)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_flower_ends_with_the_same_weights():
    try:
        python = peers.environment(print)
    except SystemExit as refused:
        pytest.skip(f"Flower cannot be installed here: {refused}")
    ours, *_ = peers.simulate(peers.Federation.of(TOY), cores())
    timing, theirs = peers.run_flower(peers.Federation.of(TOY), python, client_cores=1)
    assert len(timing.seconds) == TOY.rounds - 1
    assert peers.largest_difference(peers.as_arrays(plain.plain_weights(ours)), theirs) < 1e-9
