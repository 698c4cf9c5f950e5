"""Figures of comparisons: what is drawn, and that a picture is written."""

import math
import re

import pytest

from fedrel.report.figures import rounds_figure

NAN = math.nan
SCORES = {"none": [[0.1, 0.2, 0.3], [0.1, 0.3]], "chosen": [[0.2, 0.5, 0.6, 0.6], [0.2, 0.4]]}


def texts(path):
    return re.findall(r"<text[^>]*>(.*?)</text>", path.with_suffix(".svg").read_text(encoding="utf-8"))


@pytest.mark.parametrize("selects", [True, False])
def test_scores_over_rounds_and_what_was_selected_where_anything_was(tmp_path, selects):
    nothing = {"none": [[NAN] * 3, [NAN] * 2], "chosen": [[NAN] * 4, [NAN] * 2]}
    selection = nothing | ({"chosen": [[NAN, 0.5, 0.6, 0.7], [NAN, 0.6]]} if selects else {})
    path = tmp_path / "rounds.png"
    rounds_figure(SCORES, path, title="C = 1", metric="dev ap", selection=selection, base_rate=0.4)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert {"C = 1", "dev ap", "none", "chosen", "round"} <= set(texts(path))
    assert ("all sentences" in texts(path)) == selects
