"""The transformer: its vectors are what the papers say, its training repeats, and only what is trained travels."""

import json
import shutil
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedrel
from fedrel.config import Extractor, Training
from fedrel.encoding.pieces import PieceEncoding, PieceShard
from fedrel.errors import UserError
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.experiment.models import assemble
from fedrel.experiment.saved import load_model
from fedrel.extractors.bert import BERT, _takes_finished_mask, pretrained, rebuilt
from fedrel.kernels.dropout import Draws
from fedrel.learning.fit import Work, _backward, fit
from fedrel.learning.model import WORDS
from fedrel.learning.named import Named, apply_patch
from fedrel.util.seeds import seeded
from tests.algorithms.tiny import experiment, tiny_bert
from tests.encoding.test_pieces import ids_of, nowhere, packed

SENTENCES = [
    ["aspirin", "eased", "her", "headache", "."],
    ["the", "pain", "of", "Ann", "went", "in", "a", "day", "or", "so", "after", "Bonn"],
    ["a", "b"],
    ["x" * 20, "in", "the", "y" * 9],
]
SPANS = [(0, 1, 3, 4), (11, 12, 3, 4), (0, 1, 1, 2), (0, 1, 3, 4)]


def model_of(
    folder: Path | None = None, *, denoiser="none", pairs=True, seed=1, **settings
) -> tuple[Any, PieceEncoding, PieceShard]:
    """A model with three classes, and the sentences above as it reads them."""
    chosen = Extractor(kind="bert", weights=str(folder or tiny_bert()), **{"max_length": 48, **settings})
    encoding = PieceEncoding.of(chosen, pairs=pairs)
    with seeded(seed):
        body, table = pretrained(chosen, encoding)
        encoder = BERT(body, chosen, pairs=pairs)
        model: Any = assemble(encoder, chosen, denoiser, 3, None if encoder.words.trainable else table)
    shard = packed(encoding, SENTENCES, SPANS)
    model.start = Named(model.weights() | ({WORDS: table} if encoder.words.trainable else {}))
    model.load(model.start, shard)
    return model, encoding, shard


def vectors_of(model: Any, shard: PieceShard) -> Any:
    model.load(model.start, shard)
    return model.vectors(shard)


def states_of(model: Any, shard: PieceShard, row: int) -> Any:
    """(L, D) what the transformer makes of this sentence alone."""
    tokens = shard.tokens[shard.starts[row] : shard.starts[row + 1]].long()
    with torch.no_grad():
        return model.encoder.body(inputs_embeds=model.encoder.words.values(tokens)[None]).last_hidden_state[0]


def refusal(**settings) -> str:
    with pytest.raises(UserError) as caught:
        model_of(**settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------------------------------------- vectors


def parts_of(states: Any, a: int, b: int, c: int, d: int) -> list[Any]:
    """The means of head, tail and what lies between, each with mean 0 and variance 1."""
    means = [states[x:y].mean(0) for x, y in ((a, b), (c, d), (min(b, d), max(a, c)))]
    return [(it - it.mean()) / (it.var(correction=0) + 1e-5).sqrt() for it in means]


@pytest.mark.parametrize("pooling", ["max", "sum", "cls+sum", "parts", "cls", "mean"])
def test_pooling_is_what_it_says(pooling):
    pairs = pooling not in ("cls", "mean")
    model, _, shard = model_of(pooling=pooling, pairs=pairs)
    vectors = model.vectors(shard)
    assert vectors.shape == (4, model.encoder.hidden)
    for row in range(len(shard)):
        states = states_of(model, shard, row)
        a, b, c, d = shard.spans[row].tolist()
        head, tail = states[a:b], states[c:d]
        expected = {
            "max": lambda h=head, t=tail: torch.cat([h.max(0).values, t.max(0).values]),
            "sum": lambda h=head, t=tail: torch.cat([h.sum(0), t.sum(0)]),
            "cls+sum": lambda s=states, h=head, t=tail: torch.cat([s[0], h.sum(0), t.sum(0)]),
            "parts": lambda s=states, p=(a, b, c, d): torch.cat(parts_of(s, *p)),
            "cls": lambda s=states: s[0],
            "mean": lambda s=states: s.mean(0),
        }[pooling]()
        torch.testing.assert_close(vectors[row], expected, rtol=0, atol=1e-5)


def test_the_default_pooling_is_sum_for_pairs_and_mean_for_texts():
    assert model_of()[0].encoder.pooling == "sum"
    assert model_of(pairs=False)[0].encoder.pooling == "mean"


def test_a_hidden_layer_on_the_lower_layers_of_a_frozen_encoder_is_what_trains():
    model, _, shard = model_of(encoder="frozen", hidden=5, layers=1)
    whole, _, _ = model_of(encoder="frozen", pooling="sum")
    encoder = model.encoder
    assert (encoder.pooling, encoder.hidden, len(encoder.body.encoder.layer)) == ("parts", 5, 1)
    assert len(whole.encoder.body.encoder.layer) > 1
    assert sorted(model.weights()) == [
        "classifier.bias",
        "classifier.weight",
        "encoder.layer.bias",
        "encoder.layer.weight",
    ]
    [kept] = shard.kept
    for row in range(3):  # the last sentence has mentions of more pieces than fit
        a, b, c, d = shard.spans[row].tolist()
        expected = torch.cat(parts_of(states_of(model, shard, row), a, b, c, d))
        torch.testing.assert_close(
            kept[row].float(), expected, rtol=0, atol=0.05 if encoder.precision == "auto" else 1e-3
        )
    by_hand = torch.nn.functional.gelu(encoder.layer(kept.float()))
    torch.testing.assert_close(model.vectors(shard), by_hand.detach(), rtol=0, atol=1e-6)
    fitted = fit(model, shard, Training(epochs=2, optimizer="adamw", dropout=0.3), lr=0.1, seed=1)
    assert fitted.steps == 2
    assert not torch.equal(model.weights()["encoder.layer.weight"], model.start["encoder.layer.weight"])
    assert torch.equal(shard.kept[0], kept)


def test_mentions_are_hidden_in_training_from_the_layer_that_is_trained_and_what_is_between_never():
    model, _, shard = model_of(encoder="frozen", hidden=5, hide=0.75)
    encoder, width = model.encoder, model.encoder.body.config.hidden_size
    many = torch.ones(2_000, 3 * width)
    encoder.draws = Draws(7)
    shown = encoder._mentions_shown(many).view(2_000, 3, width)
    assert torch.equal(shown, shown[:, :, :1].expand_as(shown))  # whole mentions
    assert set(shown[:, :2].unique().tolist()) == {0.0, 4.0}
    assert 0.2 < float((shown[:, :2, 0] > 0).float().mean()) < 0.3
    assert bool((shown[:, 2] == 1).all())
    model.eval()
    assert torch.equal(encoder.trained_part(shard.kept[0]), encoder.trained_part(shard.kept[0]))
    model.train()
    assert not torch.equal(encoder.trained_part(shard.kept[0]), encoder.trained_part(shard.kept[0]))
    encoder.draws = None  # nothing is dropped
    model.eval()
    without = encoder.trained_part(shard.kept[0])
    model.train()
    assert torch.equal(encoder.trained_part(shard.kept[0]), without)


@pytest.mark.parametrize("hidden", [0, 5])
def test_a_frozen_encoder_reads_a_platform_without_sentences(hidden):
    model, encoding, _ = model_of(encoder="frozen", hidden=hidden)
    shard = packed(encoding, [], [])
    model.load(model.start, shard)
    [kept] = shard.kept
    assert kept.shape == (0, model.encoder.frozen_width)
    assert model.vectors(shard).shape == (0, model.encoder.hidden)
    assert model.score_bags(shard).shape == (0, 3)


def test_mentions_that_overlap_have_nothing_between_them():
    model, encoding, _ = model_of(encoder="frozen", hidden=5)
    shard = packed(encoding, [["new", "york", "city", "hall"]], [(0, 4, 0, 2)])
    model.load(model.start, shard)
    width = model.encoder.body.config.hidden_size
    assert torch.equal(shard.kept[0][:, 2 * width :], torch.zeros(1, width, dtype=torch.float16))


def test_a_layer_that_is_not_there_and_a_layer_on_a_trained_encoder_are_refused():
    assert refusal(layers=99).startswith("extractor.layers = 99: these weights have ")
    with pytest.raises(UserError, match=r"extractor\.hidden is a layer on a frozen encoder"):
        prepare(experiment("none", "bert", "extractor.hidden=5"))
    with pytest.raises(UserError, match=r"extractor\.layers are of a transformer"):
        prepare(experiment("none", "pcnn", "extractor.layers=2"))


def test_neighbours_padding_and_order_do_not_change_a_vector():
    model, encoding, shard = model_of()
    alone = torch.cat([vectors_of(model, packed(encoding, [SENTENCES[i]], [SPANS[i]])) for i in range(4)])
    torch.testing.assert_close(vectors_of(model, shard), alone, rtol=0, atol=1e-5)
    order = torch.tensor([3, 1, 0, 2])
    model.eval()
    with torch.no_grad():
        turned = model.encoder.encode(shard.sentences(order))
    torch.testing.assert_close(turned, alone[order], rtol=0, atol=1e-5)


def test_many_sentences_are_sorted_by_length_and_come_back_in_their_order():
    model, encoding, _ = model_of()
    many = [(["w"] * (1 + 7 * i % 23) + ["a", "in", "b"], i) for i in range(150)]
    spans = [(len(words) - 3, len(words) - 2, len(words) - 1, len(words)) for words, _ in many]
    shard = packed(encoding, [words for words, _ in many], spans)
    model.eval()
    with torch.no_grad():
        few = torch.cat([model.encoder.encode(shard.sentences(part)) for part in torch.split(torch.arange(150), 10)])
    torch.testing.assert_close(model.vectors(shard), few, rtol=0, atol=1e-5)


def test_evaluation_repeats_bit_for_bit_whatever_torch_draws():
    model, _, shard = model_of()
    model.encoder.dropout = 0.5
    first = model.vectors(shard)
    torch.rand(7)
    assert torch.equal(model.vectors(shard), first)


def test_a_length_that_is_no_multiple_of_eight_fits_the_models_places(tmp_path):
    folder = changed(tmp_path / "short", lambda config: None, positions=21)
    model, encoding, _ = model_of(folder, max_length=21)
    shard = packed(encoding, [["w"] * 30], [(3, 4, 9, 10)])
    model.load(model.start, shard)
    fit(model, shard, Training(epochs=1), lr=1e-3, seed=1)


def test_the_benchmarks_plain_loop_scores_what_ours_scores():
    from benchmarks.bert import Bench, PlainBERT, plain_rows, plain_scores

    cpu = torch.device("cpu")
    bench = Bench.of(str(tiny_bert()), cpu, 70, "extractor.max_length=64")
    plain = PlainBERT(str(tiny_bert()), len(bench.encoding), 0.1)
    plain.load_state_dict(
        {name.removeprefix("encoder."): value for name, value in bench.model.weights().items()}, strict=False
    )
    with torch.no_grad():
        plain.body.get_input_embeddings().weight.copy_(bench.start[WORDS])
    bench.model.load(bench.start, bench.shard)
    scores = plain_scores(plain, plain_rows(bench.shard), device=cpu, mixed=False, tokenizer=bench.encoding.tokenizer)
    torch.testing.assert_close(bench.score(bench.model), scores, rtol=0, atol=1e-5)


# ---------------------------------------------------------------------------------------------- training


def trained(seed=1, *, dropout=0.3, optimizer="adamw", **settings) -> Any:
    model, _, shard = model_of(**settings)
    model.load(model.start, shard)
    fit(model, shard, Training(epochs=2, batch=2, dropout=dropout, optimizer=optimizer), lr=1e-2, seed=seed)
    return model.trained(shard, torch.arange(4))


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_training_with_dropout_repeats_bit_for_bit_and_leaves_torch_alone(optimizer):
    tiny_bert()  # whoever is first makes it, with random weights
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = trained(optimizer=optimizer)
    assert torch.equal(torch.rand(1), expected)
    second = trained(optimizer=optimizer)
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = trained(2, optimizer=optimizer)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_dropout_is_really_there():
    dropped, whole = trained(dropout=0.3), trained(dropout=0.0)
    assert not all(torch.equal(dropped[name], whole[name]) for name in dropped)


def run(tmp_path, *settings, method="fedavg"):
    out = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
    execution = Execution(prepare(experiment(method, "bert", "data.size=500", *settings)), out)
    for _ in execution.rounds():
        pass
    return execution, execution.finish(), out


def test_platforms_that_train_side_by_side_do_not_disturb_each_other(tmp_path):
    """Also twice with the same number of workers: threads take turns differently every time."""
    results = []
    for workers in (1, 2, 2):
        execution, result, _ = run(tmp_path, f"engine.workers={workers}", "training.dropout=0.3")
        results.append((execution.state["weights"], result["test"]))
    for weights, test in results[1:]:
        assert all(torch.equal(weights[name], value) for name, value in results[0][0].items())
        assert test == results[0][1]


@pytest.mark.parametrize("denoiser", ["one", "ave", "att", "att-ra"])
def test_every_denoiser_trains_on_it(denoiser):
    model, _, shard = model_of(denoiser=denoiser)
    model.load(model.start, shard)
    training = Training(epochs=1, batch=2, dropout=0.0, optimizer="adamw")
    first = fit(model, shard, training, lr=1e-2, seed=1).loss
    for seed in range(30):
        last = fit(model, shard, training, lr=1e-2, seed=seed).loss
    assert last < first


def test_half_the_digits_train_weights_of_full_precision():
    model, _, shard = model_of()
    whole = model.vectors(shard)
    model.encoder.precision = "bfloat16"
    half = model.vectors(shard)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, whole, rtol=0.05, atol=0.1)
    assert not torch.equal(half, whole)
    model.load(model.start, shard)
    fit(model, shard, Training(epochs=1, dropout=0.1, optimizer="adamw"), lr=1e-3, seed=1)
    assert {value.dtype for value in model.weights().values()} == {torch.float32}


@pytest.mark.parametrize("denoiser", ["none", "ave", "att", "att-ra"])
@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta"])
def test_nobody_waits_for_the_device_in_training_or_scoring(kind, denoiser):
    """On a device without memory every look at a number of it fails, where it would make a GPU wait."""
    model, encoding, shard = model_of(None if kind == "bert" else tiny(kind), denoiser=denoiser)
    shard = packed(encoding, SENTENCES * 20, SPANS * 20)  # more than are scored at once
    device = torch.device("meta")
    model.to(device)
    model.load(model.start.to(device), shard)
    model.train()
    model.draw_from(1, 0.1)
    everything = torch.arange(80)
    plain = denoiser == "none"
    work = Work(model, shard.at(device), Training(), 1e-3, 1, everything, plain, None, None)
    _backward(work, everything)
    assert model.encoder.words.gradient().shape == model.encoder.words.rows.shape
    model.eval()
    with torch.no_grad():
        assert model.encoder.encode(work.shard.bags_between(0, 80)).shape == (80, model.encoder.hidden)


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_finished_mask_is_the_librarys_own(kind, precision):
    model, _, shard = model_of(None if kind == "bert" else tiny(kind))
    model.encoder.precision = precision
    assert model.encoder.finished_mask
    finished = model.vectors(shard)
    model.encoder.finished_mask = False
    assert torch.equal(model.vectors(shard), finished)


def test_a_family_with_local_attention_makes_its_masks_itself():
    from transformers import ModernBertConfig, ModernBertModel

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    assert not _takes_finished_mask(ModernBertModel(ModernBertConfig(vocab_size=60_000, **sizes)))


# ---------------------------------------------------------------------------------------------- what travels


def test_of_a_frozen_encoder_only_the_classifier_travels_and_changes(tmp_path):
    execution, _, out = run(tmp_path, "extractor.encoder=frozen")
    assert set(execution.state["weights"]) == {"classifier.weight"}
    fields = {json.loads(line)["field"] for line in (out / "ledger.jsonl").read_text().splitlines()}
    assert {name for name in fields if name.startswith("weights")} == {"weights/classifier.weight"}
    fresh = prepare(execution.setup.experiment).model.fixed()
    assert len(fresh) > 20
    assert all(torch.equal(value, fresh[name]) for name, value in execution.setup.model.fixed().items())
    learnt = execution.state["weights"]["classifier.weight"].cpu()  # a GPU's weights stay on it
    assert not torch.equal(learnt, execution.setup.weights["classifier.weight"].cpu())


def test_with_lora_little_travels_and_the_rest_never_changes(tmp_path):
    whole, _, _ = run(tmp_path, "training.rounds=1")
    execution, result, out = run(tmp_path, "extractor.lora=2", "training.rounds=1")
    names = set(execution.state["weights"])
    assert all("lora_" in name or name == "classifier.weight" for name in names)
    assert any("lora_" in name for name in names)
    assert result["bytes"]["up"] < whole.standing.bytes_up / 2
    before = prepare(execution.setup.experiment).model.fixed()
    assert all(torch.equal(value, before[name]) for name, value in execution.setup.model.fixed().items())
    moved = [
        name
        for name in names
        if not torch.equal(execution.state["weights"][name].cpu(), execution.setup.weights[name].cpu())
    ]
    assert any("lora_B" in name for name in moved)
    saved = load_model(out)
    assert scores(saved.model, saved.weights, execution).shape[1] == len(saved.relations)


# ---------------------------------------------------------------------------------------------- saved and loaded


def scores(model, weights, execution):
    shard = execution.setup.shard_of(execution.setup.dataset.test)
    model.load(weights, shard)
    return model.score_bags(shard).numpy()


@pytest.mark.parametrize(
    "settings",
    [[], ["extractor.encoder=frozen"], ["extractor.lora=2"], ["extractor.blind=true", "extractor.pooling=cls+sum"]],
    ids=lambda it: " ".join(it) or "plain",
)
def test_what_is_loaded_scores_as_the_run_reported(tmp_path, settings):
    execution, result, out = run(tmp_path, *settings, method="att")
    state = torch.random.get_rng_state()
    saved = load_model(out)
    assert torch.equal(torch.random.get_rng_state(), state), "loading drew from torch"
    setup = execution.setup
    numbers = saved.encoding.numbers(setup.dataset.words)
    test = setup.dataset.test
    shard = saved.encoding.pack(test, *setup.evaluation.bags(test), numbers)
    saved.model.load(saved.weights, shard)
    again = saved.model.score_bags(shard).numpy()
    assert setup.evaluation.metrics(again, test) == result["test"]
    setup.model.load(saved.weights, shard)
    np.testing.assert_array_equal(again, setup.model.score_bags(shard).numpy())
    sentence = "Ann was born in Bonn."
    assert fedrel.load(out).predict(sentence, head=(0, 3), tail=(16, 20)).relation in saved.relations[1:]


def test_every_file_of_the_folder_is_sealed(tmp_path):
    _, _, out = run(tmp_path, "training.rounds=1")
    folder = out / "model"
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    sealed = json.loads((folder / "config.json").read_text())["sha256"]
    assert sorted([*sealed, "config.json"]) == files
    assert "encoder/config.json" in sealed
    assert not any(str(tiny_bert()) in (folder / name).read_text() for name in sealed if name.startswith("encoder/"))
    for name in sealed:
        copy = tmp_path / name.replace("/", "-")
        shutil.copytree(folder, copy)
        with (copy / name).open("ab") as file:
            file.write(b" ")
        with pytest.raises(UserError, match="damaged or changed"):
            load_model(copy)


# ---------------------------------------------------------------------------------------------- refusals


def changed(folder: Path, change, *, positions=64) -> Path:
    """A copy of the tiny model with another description, and as many places as told."""
    from transformers import BertConfig, BertModel

    shutil.copytree(tiny_bert(), folder)
    if positions != 64:
        fewer = BertConfig.from_pretrained(folder)
        fewer.max_position_embeddings = positions
        quietly(lambda: BertModel(fewer).save_pretrained(folder))
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def quietly(work):
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        return work()
    finally:
        logging.enable_progress_bar()


def test_without_the_packages_it_says_which_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("fedrel.encoding.pretrained.find_spec", lambda name: None)
    assert 'pip install "fedrel[bert]"' in refusal()
    with pytest.raises(UserError, match="pip install"):
        PieceEncoding.load(tmp_path, Extractor(kind="bert"), pairs=True)


def test_a_folder_that_is_no_model(tmp_path, capfd):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refusal(folder=empty).startswith(f'extractor.weights = "{empty}": not a readable model')
    (empty / "config.json").write_text("[1]")
    assert "not a readable model" in refusal(folder=empty)
    no_weights = changed(tmp_path / "none", lambda config: None)
    (no_weights / "model.safetensors").unlink()
    assert "model.safetensors" in refusal(folder=no_weights)
    (no_weights / "model.safetensors").write_bytes(b"nonsense" * 20)
    assert "not a readable model" in refusal(folder=no_weights)
    no_tokenizer = changed(tmp_path / "untold", lambda config: None)
    (no_tokenizer / "tokenizer.json").unlink()
    (no_tokenizer / "tokenizer_config.json").unlink()
    assert "no tokenizer in this folder" in refusal(folder=no_tokenizer)
    assert capfd.readouterr().err == "", "the library's own tables"


def test_weights_of_another_kind_are_not_drawn_at_random(tmp_path):
    other = changed(tmp_path / "other", lambda config: config.update(model_type="distilbert"))
    assert "the weights lack" in refusal(folder=other)
    wider = changed(tmp_path / "wider", lambda config: config.update(hidden_size=32))
    assert "not a readable model" in refusal(folder=wider)


def test_pickled_weights_are_never_opened(tmp_path):
    folder = changed(tmp_path / "pickled", lambda config: None)
    (folder / "model.safetensors").unlink()
    torch.save({"embeddings": torch.zeros(1)}, folder / "pytorch_model.bin")
    assert "safetensors" in refusal(folder=folder)


def test_a_hub_that_cannot_be_reached_is_told_at_once(refused, monkeypatch):
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", nowhere)
    begin = time.perf_counter()
    told = refused(
        "run", "--set", "extractor.kind=bert", "--set", "extractor.weights=nobody/none", "--set", "data.size=500"
    )
    assert "the model hub cannot be reached" in told
    assert time.perf_counter() - begin < 15


def test_a_model_that_was_fetched_before_needs_no_hub(tmp_path, monkeypatch):
    kept = tmp_path / "hub" / "models--some--model"
    shutil.copytree(tiny_bert(), kept / "snapshots" / "abc")
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", nowhere)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    model, _, shard = model_of(Path("some/model"))
    assert torch.equal(model.vectors(shard), model_of()[0].vectors(shard))


def test_lengths_beyond_the_models_places_are_refused():
    assert refusal(max_length=65) == "extractor.max_length = 65: these weights read at most 64 pieces"


def test_poolings_that_do_not_fit_are_refused(refused, tmp_path):
    assert "does not fit plain text" in refusal(pooling="max", pairs=False)
    assert "does not fit sentences with pairs" in refusal(pooling="mean")
    told = refused(
        "run", *("--set", "extractor.kind=bert"), *("--set", f"extractor.weights={tiny_bert()}"),
        *("--set", "extractor.max_length=32"), *("--set", "extractor.pooling=cls"), *("--set", "data.size=500"),
    )  # fmt: skip
    assert told.startswith('extractor.pooling = "cls" does not fit')


# ---------------------------------------------------------------------------------------------- other transformers


@cache
def tiny(kind: str) -> Path:
    """Small models of other families, with the tokenizers that theirs have."""
    import tempfile

    from tokenizers import ByteLevelBPETokenizer
    from transformers import AutoTokenizer, DistilBertConfig, DistilBertModel, RobertaConfig, RobertaModel

    folder = Path(tempfile.mkdtemp(prefix=f"tiny-{kind}-"))
    if kind == "distilbert":
        AutoTokenizer.from_pretrained(tiny_bert()).save_pretrained(folder)
        body: Any = DistilBertModel(
            DistilBertConfig(vocab_size=195, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=50)
        )
    else:
        from transformers import RobertaTokenizerFast

        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        raw = ByteLevelBPETokenizer()
        lines = [" ".join(words) for words in SENTENCES] * 5
        raw.train_from_iterator(lines, vocab_size=300, special_tokens=special, show_progress=False)
        raw.save(str(folder / "tokenizer.json"))
        vocabulary: Any = raw.get_vocab()
        written = json.loads((folder / "tokenizer.json").read_text())
        merges: Any = [tuple(merge) for merge in written["model"]["merges"]]
        RobertaTokenizerFast(vocab=vocabulary, merges=merges).save_pretrained(folder)
        body = RobertaModel(
            RobertaConfig(
                vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                intermediate_size=32, max_position_embeddings=50, pad_token_id=1, bos_token_id=0, eos_token_id=2,
            )
        )  # fmt: skip
    quietly(lambda: body.save_pretrained(folder))
    return folder


@pytest.mark.parametrize("kind", ["distilbert", "roberta"])
def test_other_transformers_train_and_are_saved(kind, tmp_path):
    model, encoding, shard = model_of(tiny(kind), pooling="cls+sum")
    alone = torch.cat([vectors_of(model, packed(encoding, [SENTENCES[i]], [SPANS[i]])) for i in range(4)])
    torch.testing.assert_close(vectors_of(model, shard), alone, rtol=0, atol=1e-5)
    results = []
    for _ in range(2):
        model, encoding, shard = model_of(tiny(kind), pooling="cls+sum")
        torch.rand(3)
        model.load(model.start, shard)
        fit(model, shard, Training(epochs=2, batch=2, dropout=0.3, optimizer="adamw"), lr=1e-2, seed=1)
        results.append(apply_patch(model.start, model.trained(shard, torch.arange(4))))
    assert all(torch.equal(results[0][name], value) for name, value in results[1].items())
    encoding.save(tmp_path)
    model.encoder.save(tmp_path)
    chosen = Extractor(kind="bert", weights="gone", max_length=48, pooling="cls+sum")
    pieces = PieceEncoding.load(tmp_path, chosen, pairs=True)
    again = assemble(BERT(rebuilt(tmp_path, chosen, pieces), chosen, pairs=True), chosen, "none", 3)
    again.load(results[0], shard)
    assert ids_of(packed(pieces, SENTENCES, SPANS)) == ids_of(shard)
    torch.testing.assert_close(again.vectors(shard), model.vectors(shard), rtol=0, atol=1e-4)


def test_byte_level_words_are_cut_as_in_the_middle_of_a_text():
    _, encoding, shard = model_of(tiny("roberta"))
    pieces = encoding.tokenizer.convert_ids_to_tokens(ids_of(shard)[: shard.starts[1]])
    text = encoding.tokenizer.tokenize(" aspirin eased her headache .")
    assert [piece for piece in pieces[1:-1] if not piece.startswith(("[E", "[/E"))] == text
    assert text[0].startswith("Ġ")


def test_places_of_a_model_that_counts_them_from_behind_its_padding():
    """RoBERTa with 50 places reads 48 pieces."""
    assert model_of(tiny("roberta"), max_length=48)
    assert refusal(folder=tiny("roberta"), max_length=49).endswith("these weights read at most 48 pieces")
    model, encoding, _ = model_of(tiny("roberta"), max_length=48)
    shard = packed(encoding, [["w"] * 100], [(3, 4, 9, 10)])
    assert shard.starts[1] == 48
    assert torch.isfinite(vectors_of(model, shard)).all()


def test_the_packages_own_weights_learn_a_few_sentences():
    chosen = Extractor(kind="bert", max_length=32)
    encoding = PieceEncoding.of(chosen, pairs=True)
    with seeded(1):
        body, table = pretrained(chosen, encoding)
        model = assemble(BERT(body, chosen, pairs=True), chosen, "none", 3)
    shard = packed(encoding, SENTENCES[:2], SPANS[:2])
    object.__setattr__(shard, "labels", torch.tensor([0, 1]))
    model.load(Named(model.weights() | {WORDS: table}), shard)
    training = Training(epochs=3, batch=2, dropout=0.0, optimizer="adamw")
    fit(model, shard, training, lr=3e-4, seed=1)
    assert model.log_probabilities(shard).argmax(1).tolist() == [0, 1]
