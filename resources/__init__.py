"""Icons, themes, operator categories and the sample model."""
