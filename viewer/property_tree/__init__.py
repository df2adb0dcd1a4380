"""Rows of fields that are shown and edited where they stand: what the inspector and other property lists are made of.

`rows` says what a row is (no Qt), `tree` shows rows, `delegate` paints and edits them.
"""
