"""How things look and are written: themes, icons, tooltips, formatting of numbers, names and places."""
