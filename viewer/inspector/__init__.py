"""Inspector: every field of the selection, shown and edited in place.

`panel` is the dock; `nodes`, `attributes`, `values`, `graphs`, `models`, `devices` build the rows of each kind of
object; `multi_selection` joins the rows of several objects; `tensors` computes first values and statistics in tasks.
"""
