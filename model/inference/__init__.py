"""Type and shape inference for all values, independent of what the file declares."""

from onnx_workbench.model.inference.infer import InferredTypes, disagreements, infer

__all__ = ["InferredTypes", "disagreements", "infer"]
