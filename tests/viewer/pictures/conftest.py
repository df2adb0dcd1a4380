"""The graphs of the canvas's tests, and its canvas."""

from tests.viewer.canvas.conftest import branching, branching_model, show, small

__all__ = ["branching", "branching_model", "show", "small"]
