"""Run panel: inputs, limits and breakpoints of a run, and its results."""
