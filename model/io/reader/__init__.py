"""From files, bytes and streams to a model. Weights stay in the file until they are used."""
