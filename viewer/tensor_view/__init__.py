"""Tensor view: the numbers of the selection, as tables, images and plots, shown and edited."""
