"""Models in the forms of others, from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from fedrel import exports
from fedrel.api.runs import Say, StrPath, nothing_said


def export(
    model: StrPath, out: StrPath, *, to: Literal["onnx", "huggingface"], say: Say = nothing_said
) -> exports.Exported:
    """Writes the model in the folder of a run to a new folder, as ONNX or in Hugging Face's form, as `fedrel export`
    does: with a model card, and checked against fedrel's own scores on 1,000 sentences. Raises UserError for a model
    that has no such form, without the packages that it takes, and for an `out` that exists.
    """
    return exports.export(Path(model), Path(out), to, say=say)
