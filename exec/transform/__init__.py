"""Transformations of whole models, each checked against the model it was made from."""
