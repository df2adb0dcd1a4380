"""The one error a user can cause; everything else that is raised is a bug."""

from __future__ import annotations

from typing import Any


class ModelError(ValueError):
    """Something about a model or file that the user can cause and should be told.

    `title` is a short sentence for a heading, `detail` says what was found and what was expected,
    `place` is where: a model object (Node, Value, Graph …) or a text such as ``byte 123 in model.graph.node[4]``.
    """

    def __init__(self, title: str, detail: str = "", place: Any = None) -> None:
        self.title = title
        self.detail = detail
        self.place = place
        super().__init__(title if not detail else f"{title}: {detail}")
