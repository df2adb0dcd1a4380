"""The passes of the simplifier, by subject."""
