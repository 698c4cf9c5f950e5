"""The README.md of an exported model: how to use it, and what a person should know of where it comes from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.evaluation.ranking import worth_showing
from fedrel.experiment.results import experiment_of, read_json, read_result
from fedrel.experiment.saved import SavedModel
from fedrel.privacy.meaning import meaning
from fedrel.util.escaping import shown
from fedrel.util.units import format_bytes

_USE = {
    "onnx": """```python
import json
import numpy as np
import onnxruntime

relations = json.load(open("config.json", encoding="utf-8"))["relations"]
session = onnxruntime.InferenceSession("model.onnx")
log_odds, confidence = session.run(None, {
    "tokens": tokens,    # (S, L) int64, sentences padded to one length
    "lengths": lengths,  # (S,) int64, how many tokens each has
    "spans": spans,      # (S, 4) int64: head start, head end, tail start, tail end, in tokens
})
best = [relations[number] for number in confidence.argmax(1)]
```""",
    "huggingface": """```python
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("encoder")  # of this folder
encoder = AutoModel.from_pretrained("encoder", add_pooling_layer=False)

import fedrel  # reads the whole model: encoder, classifier, calibration

model = fedrel.load(".")
print(model.predict("Marie Curie was born in Warsaw.", head=(0, 11), tail=(24, 30)))
```

`weights.safetensors` holds the classifier (`classifier.weight`, `classifier.bias`), and `config.json` the relations and
how confidences are calibrated.""",
}
_READS = {
    True: "Tokens are the pieces of the tokenizer in `encoder/`, with markers around head and tail: "
    "`[CLS] the [E1] aspirin [/E1] eased her [E2] headache [/E2] . [SEP]`; spans are those between the markers.",
    False: "Tokens are line numbers of `vocabulary.txt`, from 0; the first is padding, the second any unknown word. "
    "`fedrel.corpus.tokens.tokenize` cuts a sentence into words.",
}


_OF_SEVERAL = {
    "max": "Of several sentences about one pair, the highest score counts.",
    "mean": "fedrel scores several sentences about one pair by the mean of their vectors, which is not exported: "
    "of exported scores, take the highest.",
    "attention": "fedrel weighs several sentences about one pair by attention, which is not exported: of exported "
    "scores, take the highest.",
}


def model_card(saved: SavedModel, model: Path, to: str, difference: float, sentences: int) -> str:
    """The card of a model in the folder of its run, or in a folder of its own, of which less is known."""
    lines = [
        "---",
        "library_name: fedrel",
        "tags: [relation-extraction, distant-supervision, federated-learning]",
        "---",
        "",
        "# A relation extractor",
        "",
        f"Given a sentence and two entities in it, it says which of {len(saved.relations) - int(saved.has_na)} "
        f"relations holds between them. Trained with fedrel {saved.version}; extractor: {saved.extractor.kind}.",
        "",
        "## Use",
        "",
        _USE[to],
        "",
        _READS[saved.extractor.kind == "bert"],
        "",
        f"Checked when it was exported: on {sentences:,} sentences of random words, confidences differ from fedrel's "
        f"own by at most {difference:.0e}. {_OF_SEVERAL[saved.model.scored_by]}",
        "",
        "## Relations",
        "",
        ", ".join(f"`{shown(it, 200)}`" for it in saved.relations),
        "",
        *_origin(model),
    ]
    return "\n".join(lines) + "\n"


def _origin(model: Path) -> Iterator[str]:
    try:
        result, experiment = read_result(model), experiment_of(model)
        data = read_json(model / "details.json", ("data", "held"))
    except UserError:
        yield "## Data, method, scores"
        yield ""
        yield "Not known: the model was exported without the folder of its run."
        return
    held: dict[str, int] = data["held"]
    yield "## Data and method"
    yield ""
    holders = f"{len(held):,} platforms" if len(held) > 1 else "one holder"
    yield (
        f"{sum(held.values()):,} training sentences (format: {experiment.data.source}) of {holders}. "
        f"Method: `{result['method']}`, {result['rounds']} rounds, of which round {result['best_round']} was kept. "
        "Unless the labels are gold, they are those of a knowledge base (distant supervision): many are wrong, and a "
        "confidence says how likely the knowledge base has the fact."
    )
    yield ""
    yield "## Scores"
    yield ""
    yield "| split | " + " | ".join(worth_showing(result["test"])) + " |"
    yield "|---" * (1 + len(worth_showing(result["test"]))) + "|"
    for split in ("dev", "test"):
        scores: dict[str, float] = result[split]
        cells = (f"{scores[name]:.3f}" if name in scores else "–" for name in worth_showing(result["test"]))
        yield f"| {split} | {' | '.join(cells)} |"
    yield ""
    yield "## What left the platforms"
    yield ""
    yield from _what_left(model / "ledger.jsonl")


def _what_left(ledger: Path) -> Iterator[str]:
    sent: Counter[tuple[str, str]] = Counter()
    try:
        for line in ledger.read_text(encoding="utf-8").splitlines():
            entry: dict[str, Any] = json.loads(line)
            told = meaning(entry["field"])
            sent[told.what, told.reveals] += int(entry["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        yield "Not known: the run's ledger is not there."
        return
    yield "| what | bytes, of all platforms and rounds | what it reveals, in words for a platform |"
    yield "|---|---|---|"
    for (what, reveals), size in sent.most_common():
        yield f"| {what} | {format_bytes(size)} | {reveals} |"
