"""The Run panel: inputs, limits and breakpoints of a run, and what came out of it."""
