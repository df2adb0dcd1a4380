"""Run-time values: arrays and their limits, sizes and statistics; no operators."""
