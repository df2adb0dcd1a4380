"""Kernels of the ai.onnx and ai.onnx.preview domains."""
