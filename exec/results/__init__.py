"""Results of a run: values, nodes, times and failures, in memory and in files."""
