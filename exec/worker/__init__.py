"""Runs in a process of their own: the session the program asks, the worker that computes, what goes between."""
