"""Text forms of types, attributes, elements and operators: parsing and printing."""
