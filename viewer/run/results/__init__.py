"""Results of runs: kept, saved, compared, and known to be stale."""
