"""The smaller panels around the graph, one module each."""
