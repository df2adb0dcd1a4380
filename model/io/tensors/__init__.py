"""Tensor data: element layouts, lazily read data, external data, tensors as separate files."""
