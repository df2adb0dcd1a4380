"""Simplification: passes that make a model smaller without changing what it computes.

Import from the modules: `pipeline` runs passes, `pass_list` lists them, `passes` defines their interface.
"""
