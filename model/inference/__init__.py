"""Types and shapes of all values, found out apart from what the file declares."""

from onnx_workbench.model.inference.infer import InferredTypes, disagreements, infer

__all__ = ["InferredTypes", "disagreements", "infer"]
