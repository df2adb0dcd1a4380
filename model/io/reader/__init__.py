"""Read files, bytes and streams into a model. Weights stay in the file until they are used."""
