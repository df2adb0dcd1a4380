"""Edits of models as plain functions over steps: one module per subject."""
