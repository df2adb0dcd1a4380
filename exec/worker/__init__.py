"""Runs in a worker process: the program's session, the worker that computes, and the protocols between them."""
