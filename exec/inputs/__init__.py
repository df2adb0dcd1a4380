"""Values for the inputs of a model: generated from declared shapes, or read from files, images and test data."""
