"""Kernels of the operators in defs/nn, and of resampling."""
