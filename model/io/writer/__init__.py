"""From a model to files: what was not edited is copied, and a file is replaced whole or not at all."""
