"""Models in the forms of others: ONNX, and Hugging Face's. Each is checked against fedrel's own scores."""

from fedrel.exports.exporting import FORMS, Exported, export

__all__ = ["FORMS", "Exported", "export"]
