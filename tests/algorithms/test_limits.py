"""Where a method's own part vanishes, what is left is FedAvg, to the last bit; and other limits that formulas have."""

from dataclasses import replace

import pytest
import torch

from fedrel import config
from fedrel.algorithms import METHODS
from fedrel.algorithms.feded import teach
from fedrel.engines.engine import Upload
from fedrel.engines.simulator import Simulator
from fedrel.errors import UserError
from fedrel.experiment.assembly import complete, prepare
from fedrel.experiment.execution import Execution
from fedrel.learning import fit as fitting
from fedrel.learning.fit import fit
from fedrel.learning.losses import divergence
from fedrel.learning.named import Named, apply_patch
from fedrel.protocol.records import named_in
from fedrel.protocol.round import Ask, drive
from fedrel.protocol.site import Notes, Site
from tests.algorithms.tiny import experiment


def learnt(settings: config.Experiment, rounds: int = 3, *, direct: bool = False) -> Named:
    """The server's weights after a few rounds."""
    setup = prepare(settings)
    simulator = Simulator(setup.algorithm, setup.sites, direct=direct)
    state = setup.algorithm.start(setup.weights)
    for number in range(rounds):
        flow = setup.algorithm.round(replace(setup.hub, round=number), state, setup.sampler.cohort(number))
        state = drive(flow, simulator, number)
    return named_in(state, "weights")


LIMITS = [
    ("fedprox", ["method.mu=0"]),
    ("moon", ["method.mu=0"]),
    ("fedrs", ["method.alpha=1"]),
    ("fedlc", ["method.tau=0"]),
    ("fedcmc", ["method.mu=0"]),
    ("fedcmc", ["method.vectors=none"]),
    ("fedavgm", ["method.momentum=0"]),
]


@pytest.mark.parametrize("extractor", ["pcnn", "bert"])
@pytest.mark.parametrize(("method", "settings"), LIMITS)
def test_without_its_own_part_a_method_is_fedavg(method, settings, extractor, monkeypatch):
    # A loss of its own needs autograd, whose gradients differ from the compiled step's in the last bit.
    monkeypatch.setattr(fitting, "compiled_step_of", lambda *args, **kwargs: None)
    dropped = ["training.fraction=0.5", "partition.kind=dirichlet", "partition.alpha=0.1"]
    found = learnt(experiment(method, extractor, *settings, *dropped))
    plain = learnt(experiment("fedavg", extractor, *dropped))
    assert found.keys() == plain.keys()
    for name, value in plain.items():
        if method == "fedavgm":  # x + (avg - x) rounds
            torch.testing.assert_close(found[name], value)
        else:
            assert found[name].equal(value), name


@pytest.mark.parametrize(
    ("method", "settings"),
    [("fedprox", ["method.mu=0.5"]), ("moon", []), ("fedrs", []), ("fedlc", []), ("fedcmc", []), ("fedatt", [])],
)
def test_with_its_own_part_it_is_not(method, settings):
    uneven = ["partition.kind=dirichlet", "partition.alpha=0.1"]
    found, plain = learnt(experiment(method, "pcnn", *settings, *uneven)), learnt(experiment("fedavg", "pcnn", *uneven))
    assert not found["classifier.weight"].equal(plain["classifier.weight"])


def test_scaffold_with_one_platform_is_plain_gradient_descent():
    alone = ["partition.platforms=1", "training.weight_decay=0.001", "training.dropout=0"]
    found, plain = (learnt(experiment(name, "pcnn", *alone, "training.lr=0.1")) for name in ("scaffold", "fedavg"))
    for name, value in plain.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=2e-5)


def test_one_platform_that_holds_all_is_centralised_training():
    alone = ["partition.platforms=1", "partition.server=0"]
    found = learnt(experiment("fedavg", "pcnn", *alone))
    central = learnt(experiment("centralised", "pcnn"))
    assert all(found[name].equal(value) for name, value in central.items())


def test_scaffold_and_feddyn_by_hand():
    """One round in which each platform takes the steps written out here, on the whole word table."""
    settings = ["training.epochs=1", "training.batch=100000", "training.dropout=0", "training.lr=0.1"]
    for method in ("scaffold", "feddyn"):
        setup = prepare(experiment(method, "pcnn", *settings, "training.optimizer=sgd"))
        x = setup.weights
        push = Named({name: torch.full_like(value, 0.01) for name, value in x.items()})
        site = replace(setup.sites["p0"], notes=Notes({"control" if method == "scaffold" else "h": push}))
        message = {"weights": x, "control": x.zeros()} if method == "scaffold" else {"weights": x}
        plain = prepare(experiment("fedavg", "pcnn", *settings, "training.optimizer=sgd"))
        there = replace(plain.sites["p0"])
        gradient_step = apply_patch(x, named_in(plain.algorithm.train(there, {"weights": x}), "weights")) - x
        found = named_in(setup.algorithm.train(site, message), "weights") - x
        for name, change in gradient_step.items():
            expected = change + 0.1 * 0.01  # one step: + lr · c_k, and + lr · h_k
            if name == "words":
                expected[0] = 0  # padding
            torch.testing.assert_close(found[name], expected, rtol=0, atol=1e-6, msg=name)
        if method == "scaffold":
            # c_k+ = c_k - c + (x - y)/(S lr)
            new = named_in(site.memory, "control")["classifier.weight"]
            torch.testing.assert_close(new, push["classifier.weight"] - found["classifier.weight"] / 0.1)
        else:
            alpha = 0.01
            new = named_in(site.memory, "h")["classifier.weight"]
            torch.testing.assert_close(new, push["classifier.weight"] - alpha * found["classifier.weight"])


def test_fedprox_pulls_to_the_global_model():
    """Two steps written out: the second feels μ(w - x)."""
    setup = prepare(experiment("fedprox", "pcnn", "method.mu=0.5", "training.dropout=0"))
    site: Site = setup.sites["p0"]
    training = config.Training(epochs=2, batch=10**6, dropout=0.0, weight_decay=0.0)
    pull = setup.algorithm.pull(site, {})

    def after(epochs, pull) -> Named:
        site.model.load(setup.weights, site.shard)
        fitted = fit(site.model, site.shard, replace(training, epochs=epochs), lr=0.1, seed=1, pull=pull)
        return apply_patch(setup.weights, site.model.trained(site.shard, fitted.sentences, pull))

    x, one, two, pulled = setup.weights, after(1, None), after(2, None), after(2, pull)
    for name in ("words", "classifier.weight", "encoder.convolution.weight"):
        torch.testing.assert_close(pulled[name], two[name] - 0.1 * 0.5 * (one[name] - x[name]), rtol=0, atol=1e-6)


def test_the_teacher_that_is_the_student_teaches_nothing():
    """FedED's KL term on the first batch, when every platform answers with the server's own model."""
    setup = prepare(experiment("feded", "pcnn"))
    hub = setup.hub
    hub.model.load(setup.weights, hub.shard)
    log_p = hub.model.log_probabilities(hub.shard)
    q = teach([log_p, log_p, log_p], "log-mean", 1.0)
    terms = []

    def loss(output):
        term = divergence(q[output.sentences], output.logits)
        terms.append(float(term.detach()))
        return term

    fit(hub.model, hub.shard, config.Training(epochs=1, dropout=0.0), lr=0.1, seed=1, loss=loss)
    assert abs(terms[0]) < 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_messages_handed_over_directly_say_the_same(method):
    """What a GPU does with large models: nothing is encoded, only measured."""
    settings = experiment(method, "bert", "training.fraction=0.5")
    encoded, direct = learnt(settings), learnt(settings, direct=True)
    assert all(direct[name].equal(value) for name, value in encoded.items())


# ------------------------------------------------------------------------------------------ what travels


def uploads(settings: config.Experiment, tmp_path) -> tuple[list[Upload], list[int], Execution]:
    seen: list[Upload] = []
    execution = Execution(prepare(settings), tmp_path / "run")

    def see(upload: Upload) -> None:
        seen.append(upload)
        execution._note_upload(upload)

    execution._engine.listen(see, lambda ask, platform: None)
    down = [progress.line["bytes"]["down"] for progress in execution.rounds()]
    return seen, down, execution


@pytest.mark.parametrize("extractor", ["pcnn", "bert"])
def test_feded_uploads_predictions_and_nothing_else(extractor, tmp_path):
    seen, _, execution = uploads(experiment("feded", extractor), tmp_path)
    sentences, classes = len(execution.setup.hub.shard), len(execution.setup.dataset.relations)
    assert len(seen) == 2 * 4
    for upload in seen:
        fields = {entry.name: entry for entry in upload.fields}
        assert fields.keys() == {"(header)", "log/p"}
        assert fields["log/p"].shape == (sentences, classes)
        assert fields["log/p"].bytes == sentences * classes * 2
        assert fields["(header)"].bytes <= 100


def test_fedcmc_sends_one_classifier_more_down_and_nothing_more_up(tmp_path):
    cmc, down, execution = uploads(experiment("fedcmc", "pcnn"), tmp_path / "cmc")
    avg, plain_down, _ = uploads(experiment("fedavg", "pcnn"), tmp_path / "avg")
    assert [[(e.name, e.bytes) for e in u.fields] for u in cmc] == [[(e.name, e.bytes) for e in u.fields] for u in avg]
    matrix = execution.setup.model.classifier.weight.numel() * 4
    for more, less in zip(down, plain_down, strict=True):
        per_platform = (more - less) / 4
        assert matrix <= per_platform <= matrix + 100  # and its line in the header


def test_fedcmc_shows_how_alike_its_classifier_vectors_are(tmp_path):
    execution = Execution(prepare(experiment("fedcmc", "pcnn")), tmp_path / "run")
    line = next(iter(execution.rounds())).line
    assert line["trace"].keys() == {f"similarity/p{number}" for number in range(4)}
    assert all(len(values) == len(execution.setup.dataset.relations) for values in line["trace"].values())


def test_the_labels_of_the_servers_set_stay_on_the_server():
    setup = prepare(experiment("feded", "pcnn"))
    common = setup.sites["p0"].common
    assert common is not None and len(common) == len(setup.hub.shard)
    assert not common.labels.any() and setup.hub.shard.labels.any()
    held = {row for site in setup.sites.values() for row in site.shard.rows.tolist()}
    assert not held & set(setup.hub.shard.rows.tolist())


def test_platforms_that_stay_silent_are_left_out():
    for method in ("fedavg", "scaffold", "feddyn", "fedatt", "feded", "fedcmc", "fedavgm", "fedadam"):
        setup = prepare(experiment(method, "pcnn"))
        flow = setup.algorithm.round(setup.hub, setup.algorithm.start(setup.weights), ["p0", "p1"])

        def nobody(ask: Ask) -> dict:
            return {}

        state = drive(flow, nobody, 0)
        for name, value in setup.weights.items():
            torch.testing.assert_close(named_in(state, "weights")[name], value)


# ---------------------------------------------------------------------------------- what does not go together


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["method.name=fedcmc", "extractor.bias=true"], "set extractor.bias = false"),
        (["method.name=feded", "partition.server=0"], "set partition.server = 0.2"),
        (["method.name=server-only", "partition.server=0"], "set partition.server = 0.2"),
        (["method.name=scaffold", "training.optimizer=adamw"], 'set training.optimizer = "sgd"'),
        (["method.name=fedprox", "method.mu=2"], "training.lr times method.mu must be below 1"),
        (["method.name=feddyn", "method.alpha=2"], "training.lr times method.alpha must be below 1"),
        (["extractor.blind=true"], 'set extractor.kind = "bert"'),
        (["extractor.lora=4"], 'set extractor.kind = "bert"'),
        (["training.metric=f1"], "is not a metric"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_before_anything_runs(settings, sentence):
    with pytest.raises(UserError) as refused:
        complete(experiment("fedavg", "pcnn", *settings))
    assert sentence in str(refused.value)


def test_a_pull_under_adam_is_no_matter_of_the_learning_rate():
    complete(experiment("fedprox", "pcnn", "method.mu=2", "training.optimizer=adamw"))
