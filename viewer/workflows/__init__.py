"""Whole-model work on an open document, off the GUI thread: done to a copy, then applied as one edit."""
