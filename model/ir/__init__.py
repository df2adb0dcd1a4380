"""The editable intermediate representation: graphs, nodes, values, attributes, types and tensors as linked objects."""
