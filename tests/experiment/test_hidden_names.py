"""Dev scored with names hidden: for every method, without a change to anything else that a run says."""

import json

import pytest

from fedrel.api import compare
from fedrel.errors import UserError
from fedrel.evaluation.heldout import rank
from fedrel.experiment.hidden_names import METRIC, score_without_names
from fedrel.experiment.saved import load_model
from fedrel.learning.model import BOTH_VIEWS, HIDDEN, SHOWN
from fedrel.sweeps import comparison
from tests.experiment.small_runs import finished


def test_it_is_the_ap_of_dev_with_every_name_hidden(tmp_path):
    setup, result = finished(tmp_path / "run")
    saved, dev = load_model(tmp_path / "run"), setup.dataset.dev
    shard = saved.encoding.pack(dev, *setup.evaluation.bags(dev), saved.encoding.numbers(setup.dataset.words))
    saved.model.load(saved.weights, shard)
    by_view = {}
    for view in (SHOWN, BOTH_VIEWS, HIDDEN):
        saved.model.hidden_view = view
        by_view[view] = rank(saved.model.score_bags(shard).numpy(), dev.facts).metrics()["ap"]
    assert result[METRIC] == by_view[HIDDEN] and len(set(by_view.values())) == 3


def test_a_method_that_hides_no_names_has_it_too(tmp_path):
    setup, result = finished(tmp_path / "run", "method.name=none")
    assert 0 < result[METRIC] < 1 and result[METRIC] != result["dev"]["ap"]
    assert result["hidden_view"] == SHOWN
    assert json.loads((tmp_path / "run" / "result.json").read_text())[METRIC] == result[METRIC]
    before = setup.model.hidden_view
    assert score_without_names(setup, load_model(tmp_path / "run").weights) == result[METRIC]
    assert setup.model.hidden_view == before


def test_gold_labels_have_none(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        rows = [f"a {word} film of {split} {n}\t{word}" for n in range(8) for word in ("good", "bad")]
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    _, result = finished(
        *(tmp_path / "run", "data.source=classification", f"data.path={folder}", "extractor.kind=text"),
        *("method.name=fedavg", "partition.kind=iid", "extractor.min_count=1"),
    )
    assert result[METRIC] is None


def test_a_comparison_shows_it_and_chooses_by_it(tmp_path):
    (tmp_path / "table.toml").write_text(
        "seed = 1\n[data]\nsize = 600\n[partition]\nplatforms = 3\n[extractor]\nfilters = 8\n"
        '[training]\nrounds = 3\n[compare]\nrows = ["none"]\nseeds = 1\nmetric = "dev_ap_hidden"\n'
        'choose_by = "dev_ap_hidden"\nchoose = {"training.lr" = [0.01, 0.5]}\n'
    )
    report = compare(tmp_path / "table.toml", out=tmp_path / "out").report
    by_rate = {it["settings"][0]: it for it in report["options"]}
    [cell] = report["cells"]
    chosen = max(by_rate.values(), key=lambda it: it["dev"])
    assert chosen["chosen"] and cell["scores"] == {METRIC: chosen["dev"]} and cell["option"] == chosen["settings"]
    assert report["choose_by"] == METRIC


def test_only_dev_chooses():
    asked = comparison.read(
        None, settings=[], methods=["none"], vary=[], seeds=1, metric="ap", choose_by="dev_ap_hidden"
    )
    assert asked.look.choose_by == METRIC
    with pytest.raises(UserError, match=r'compare\.choose_by = "test" is none of dev, dev_ap_hidden'):
        comparison.read(None, settings=[], methods=["none"], vary=[], seeds=1, metric="ap", choose_by="test")
