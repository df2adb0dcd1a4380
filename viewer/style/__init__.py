"""Appearance: themes, icons, tooltips, and formatting of numbers, names and locations."""
