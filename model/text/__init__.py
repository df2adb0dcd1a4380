"""How users write types, attributes, elements, operators and shardings, and how they are printed."""
