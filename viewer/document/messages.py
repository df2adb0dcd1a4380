"""Non-modal messages about one document, shown above its graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.errors import ModelError

Severity = Literal["info", "warning", "error"]
#: Topic of the refusal of the user's last action, which the next refusal replaces.
REFUSED: Final = "refused"


@dataclass(frozen=True, slots=True)
class Message:
    """Message for the user: title, details, place (a model object to show, or a text), and choices.

    `choices` are titles of buttons with their actions, each of which closes the message. A message replaces the one
    with the same `topic`.
    """

    severity: Severity
    title: str
    detail: str = ""
    place: Any = None
    choices: tuple[tuple[str, Callable[[], object]], ...] = ()
    topic: str = ""


class Messages(QObject):
    """Sends messages to the message bar of a document. GUI thread only."""

    shown = Signal(object)  # Message
    withdrawn = Signal(str)  # the topic of messages that are no longer true

    def show(
        self,
        severity: Severity,
        title: str,
        detail: str = "",
        place: Any = None,
        choices: tuple[tuple[str, Callable[[], object]], ...] = (),
        topic: str = "",
    ) -> None:
        """Show a message: one line and a detail."""
        self.shown.emit(Message(severity, title, detail, place, choices, topic))

    def report(self, error: ModelError, topic: str = "") -> None:
        """Show an error."""
        self.show("error", error.title, error.detail, error.place, topic=topic)

    def withdraw(self, topic: str) -> None:
        """Close the message on a topic that no longer applies."""
        self.withdrawn.emit(topic)
