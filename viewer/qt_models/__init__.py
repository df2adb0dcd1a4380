"""Item models that show model objects in Qt views."""
