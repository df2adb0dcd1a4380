"""The graph view: where nodes and edges lie, how they are painted and how the mouse works on them."""
