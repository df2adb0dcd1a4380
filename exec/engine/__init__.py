"""Execution of models: snapshot, lowering to a plan, and the executor that runs the plan's steps."""
