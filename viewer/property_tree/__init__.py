"""Editable property lists: rows of fields that are shown and edited in place; used by the inspector and others.

`rows` defines rows (no Qt), `model` and `tree` show them, `delegate` paints and edits them.
"""
