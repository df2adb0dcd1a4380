"""Helpers for kernels of several operators."""
