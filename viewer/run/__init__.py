"""Runs of the open model: inputs, control, progress and marks; `viewer.run.results` keeps the results."""
