"""Kernels of the com.microsoft domain."""
