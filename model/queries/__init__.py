"""Read-only questions about a model: topology, search, slices, statistics, differences."""
