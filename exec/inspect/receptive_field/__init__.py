"""Receptive fields of operators, and tracing an element back through the graph."""
