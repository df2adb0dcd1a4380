"""Runs in a process of their own: the session of the program, the worker that computes, the protocols between."""
