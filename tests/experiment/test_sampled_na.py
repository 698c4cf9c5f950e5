"""Confidences allow for pairs without a relation that the data left out."""

import json

import numpy as np
import pytest

from fedrel import config
from fedrel.evaluation.calibration import fit_calibration
from fedrel.experiment.sampled_na import na_weight


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ('{"na_weight": 12.4}', 12.4),
        ('{"na_weight": 0.2}', 1.0),
        ('{"na_weight": 1e99}', 10_000.0),
        ('{"na_weight": "many"}', 1.0),
        ('{"na_weight": NaN}', 1.0),
        ("[]", 1.0),
        ("not json", 1.0),
        (None, 1.0),
    ],
)
def test_the_summary_says_what_a_pair_stands_for_if_anything_does(tmp_path, text, weight):
    if text is not None:
        (tmp_path / "summary.json").write_text(text)
    assert na_weight(config.Data(source="opennre", path=str(tmp_path))) == weight
    assert na_weight(config.Data()) == 1.0


def test_the_label_command_says_it(fedrel, tmp_path):
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "entities.tsv").write_text("".join(f"Q{n}\tthing\tName{n} Long{n}\n" for n in range(9)))
    (tmp_path / "kb" / "triples.tsv").write_text("Q0\tknows\tQ1\n")
    everyone = ", ".join(f"Name{n} Long{n}" for n in range(9))
    (tmp_path / "text.txt").write_text(f"{everyone} were there.\n\nName0 Long0 met Name1 Long1.\n")
    arguments = ["label", "--kb", str(tmp_path / "kb"), "--text", str(tmp_path / "text.txt"), "--out"]
    assert fedrel(*arguments, str(tmp_path / "out"), "--na-per-sentence", "2").code == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    kept = summary["relations"]["NA"]["sentences"]
    left_out = summary["left_out"]["pairs without a relation, because of --na-per-sentence"]
    assert kept == 3 and left_out > 20  # the second sentence has its pair turned round
    assert summary["na_weight"] == pytest.approx((kept + left_out) / kept, abs=1e-3)


def test_each_pair_without_a_relation_counts_for_those_that_are_not_there():
    """Fitting on a tenth of the wrong candidates with a weight of ten is fitting on all of them."""
    draw = np.random.default_rng(1)
    right = draw.random(20_000) < 0.05
    z = draw.normal(0, 2, 20_000) + 3 * right
    kept = right | (draw.random(20_000) < 0.1)
    whole, sampled = fit_calibration(z, right), fit_calibration(z[kept], right[kept], np.where(right[kept], 1, 10))
    blind = fit_calibration(z[kept], right[kept])
    assert sampled.confidence(np.array([3.0]))[0] == pytest.approx(whole.confidence(np.array([3.0]))[0], abs=0.03)
    assert blind.confidence(np.array([3.0]))[0] > whole.confidence(np.array([3.0]))[0] + 0.2
