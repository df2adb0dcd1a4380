"""Popups over the window: command palette, operators, values, renaming."""
