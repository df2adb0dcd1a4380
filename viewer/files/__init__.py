"""Files of documents: opening, saving, watching, passing to a running instance, crash recovery."""
