"""Read-only analyses of a model: topology, scopes, sizes, constant values, cost, search."""
