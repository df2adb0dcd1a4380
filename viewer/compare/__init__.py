"""Comparison of two open documents: side by side or merged, with synchronized navigation and runs."""
