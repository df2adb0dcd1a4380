"""The inspector: every field of what is selected, shown and edited where it stands.

`panel` is the dock; `nodes`, `attributes`, `values`, `graphs`, `models`, `devices` say what rows each kind of object
has; `many` joins the rows of several objects; `tensors` works out first values and statistics in jobs.
"""
