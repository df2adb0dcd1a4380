"""The operators of the specification's folder math, by topic."""
