"""Rules of reverse-mode differentiation, one per operator, and the tape that applies them for Gradient."""
