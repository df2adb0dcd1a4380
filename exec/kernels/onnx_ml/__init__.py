"""Kernels of the ai.onnx.ml domain."""
