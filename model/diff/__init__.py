"""What two models have in common and in what they differ."""

from onnx_workbench.model.diff.compare import Comparison, Difference, Kind, compare, do_the_same
from onnx_workbench.model.diff.tensors import TensorDifference, compare_constants

__all__ = ["Comparison", "Difference", "Kind", "TensorDifference", "compare", "compare_constants", "do_the_same"]
