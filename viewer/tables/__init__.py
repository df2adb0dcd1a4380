"""Tables and trees with their models; most rows stand for objects of the model."""
