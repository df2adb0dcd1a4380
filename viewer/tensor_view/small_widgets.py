"""Small widgets for a pane of the tensor panel."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QLabel, QPlainTextEdit, QToolButton

from onnx_workbench.viewer.style.choices import choice_title
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.widgets.plain_label import plain_label


def text_label(name: str, *, bold: bool = False) -> QLabel:
    """Return a line of plain text that can be selected."""
    label = plain_label(wraps=False)
    font = label.font()
    font.setBold(bold)
    label.setFont(font)
    label.setAccessibleName(name)
    label.setMinimumWidth(24)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def notice_label() -> QLabel:
    """Return a centred label for a notice in place of numbers."""
    label = plain_label()
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    return label


def text_view(name: str) -> QPlainTextEdit:
    """Return a read-only text view."""
    view = QPlainTextEdit()
    view.setReadOnly(True)
    view.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
    view.setAccessibleName(name)
    return view


def combo(name: str, chosen: Callable[[int], object]) -> QComboBox:
    """Return a combo box that signals choices by the user only."""
    box = QComboBox()
    box.setAccessibleName(name)
    box.setToolTip(name)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
    box.setMinimumWidth(70)
    box.activated.connect(chosen)
    return box


def add_choices(box: QComboBox, choices: Iterable[str]) -> None:
    """Add choices to a combo box: their titles, and themselves as data."""
    for choice in choices:
        box.addItem(choice_title(choice), choice)


def button(name: str, icon_name: str, tip: str) -> QToolButton:
    """Return a flat button with an icon."""
    tool_button = QToolButton()
    tool_button.setAutoRaise(True)
    tool_button.setIcon(icon(icon_name))
    tool_button.setText(name)
    tool_button.setToolTip(tip)
    tool_button.setAccessibleName(name.removesuffix("…"))
    return tool_button
