"""Operators of the specification's folder tensor: shapes, slices, gathers, scatters and rearrangements."""
