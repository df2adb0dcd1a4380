"""Reverse-mode differentiation: a rule per operator, and the tape that applies them for Gradient."""
