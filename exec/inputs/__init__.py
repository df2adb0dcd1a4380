"""Values for the inputs of a model: made from declared shapes, or read from files, images and test data."""
