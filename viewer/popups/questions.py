"""Non-modal questions: each calls back with the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.widgets.dialog_buttons import without_icons


def ask_to_save(
    window: QWidget,
    name: str,
    save: Callable[[], object],
    discard: Callable[[], object],
    pending: Sequence[str] = (),
    holds_less: str = "",
) -> QMessageBox:
    """Ask what to do about unsaved changes of a document that is closing; Cancel calls nothing.

    `pending`: titles of edits in progress. `holds_less`: the file stores a part only.
    """
    title = f"Save the changes to {display(name, 100)}?"
    unfinished = [f"“{display(title, 100)}” is still being made." for title in pending]
    lost = "Without saving they are lost."
    if holds_less:
        name = display(holds_less, 100)
        lost = f"{name} does not contain the whole model. The rest is lost unless you save in another format."
    box = question(window, "Save changes?", title, "\n".join([*unfinished, lost]))
    buttons = QMessageBox.StandardButton
    box.setStandardButtons(buttons.Save | buttons.Discard | buttons.Cancel)
    box.setDefaultButton(buttons.Save)
    for button, text in ((buttons.Save, "&Save"), (buttons.Discard, "&Discard"), (buttons.Cancel, "&Cancel")):
        box.button(button).setText(text)  # not every platform's own texts have a key

    def answered(result: int) -> None:
        if result == buttons.Save:
            save()
        elif result == buttons.Discard:
            discard()

    box.finished.connect(answered)
    return open_question(box)


def ask_to_replace_truncated(
    window: QWidget, name: str, missing: str, save_as: Callable[[], object], replace: Callable[[], object]
) -> QMessageBox:
    """Ask before a truncated file is replaced by its readable part; Cancel calls nothing.

    `missing`: description of the missing part.
    """
    box = question(
        window,
        "Replace truncated file?",
        f"Replace {display(name, 100)} by what could be read of it?",
        f"{display(missing, 400, keep_lines=True)}\nThe new file holds only what was read. Save under another name "
        "to keep the original.",
    )
    elsewhere = box.addButton("Save &As…", QMessageBox.ButtonRole.AcceptRole)
    overwrite = box.addButton("&Replace", QMessageBox.ButtonRole.DestructiveRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(elsewhere)
    elsewhere.clicked.connect(save_as)
    overwrite.clicked.connect(replace)
    return open_question(box)


def question(window: QWidget, title: str, text: str, detail: str) -> QMessageBox:
    """Return a question without buttons yet, to be asked by `open_question`."""
    box = QMessageBox(QMessageBox.Icon.NoIcon, title, text, parent=window)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setInformativeText(detail)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return box


def open_question(box: QMessageBox) -> QMessageBox:
    """Show a question; it is deleted when it is answered."""
    without_icons(box.buttons())
    box.open()
    return box
