"""Operator signatures and documentation per domain and version."""
