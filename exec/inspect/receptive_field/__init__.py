"""Which elements of a node's inputs reach an element of its output, and tracing an element back through the graph."""
