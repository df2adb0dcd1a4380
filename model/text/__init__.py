"""Text forms of types, attributes, elements, operators and shardings: parsing and printing."""
