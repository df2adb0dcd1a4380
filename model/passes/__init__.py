"""Whole-model edits: shape inference, clean-up, simplify, conversion."""
