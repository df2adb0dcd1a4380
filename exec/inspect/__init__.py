"""Analysis of run values: statistics, comparison, non-finite values, receptive fields."""
