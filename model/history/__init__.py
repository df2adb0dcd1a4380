"""Changing a model: steps that return their inverse, documents with undo, and steps as JSON."""
