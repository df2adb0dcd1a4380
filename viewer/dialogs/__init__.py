"""Dialogs: for files, for questions that must be answered, for things with several parts."""
