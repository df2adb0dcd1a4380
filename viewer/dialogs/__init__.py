"""Dialogs: files, questions, and tools with several options."""
