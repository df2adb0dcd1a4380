"""Fields and lists that open over the window: command palette, operators, values, renaming."""
