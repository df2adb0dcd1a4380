"""What a run gave: values, nodes, times and failures, in memory and in files."""
