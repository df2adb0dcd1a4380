"""Simplification: passes that make a model smaller without changing what it computes.

Import from the modules: `driver` runs passes, `catalogue` lists them, `framework` says what one is.
"""
