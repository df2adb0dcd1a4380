"""What users add to the program: actions and views of values of extensions, and operator sets."""
