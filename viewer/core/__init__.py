"""What the parts of the window share: the context of a document, selection, tasks, settings, signals of the model."""
