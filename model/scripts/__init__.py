"""Edit scripts: what was done to one export of a model, as JSON lines that fit the next export."""
