"""Edit scripts: edits made to one export of a model, as JSON lines that can be replayed on the next export."""
