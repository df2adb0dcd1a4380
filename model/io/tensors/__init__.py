"""Tensor data: layouts of elements, data that is still in a file, external data, tensors as files of their own."""
