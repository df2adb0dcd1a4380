"""Files of documents: opening, saving, watching, crash recovery, and their tabs."""
