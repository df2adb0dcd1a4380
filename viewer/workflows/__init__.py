"""Whole-model work on an open document, off the GUI thread: rehearsed on a copy, then applied as one edit."""
