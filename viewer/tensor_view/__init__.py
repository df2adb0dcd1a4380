"""The tensor view: the numbers of what is selected, as tables, pictures and plots, looked at and edited."""
