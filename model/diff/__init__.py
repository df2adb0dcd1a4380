"""Matching of two models, and the differences between them."""

from onnx_workbench.model.diff.compare import Comparison, Difference, Kind, compare, do_the_same
from onnx_workbench.model.diff.tensors import TensorDifference, compare_constants

__all__ = ["Comparison", "Difference", "Kind", "TensorDifference", "compare", "compare_constants", "do_the_same"]
