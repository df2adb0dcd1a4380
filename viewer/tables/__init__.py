"""Tables and trees with their models; most rows represent objects of the model."""
