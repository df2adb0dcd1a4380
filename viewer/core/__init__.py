"""Shared parts of the window: the context of a document, selection, tasks, settings, signals of the model."""
