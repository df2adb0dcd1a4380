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
    made = [f"“{display(title, 100)}” is still being made." for title in pending]
    lost = "Without saving they are lost."
    if holds_less:
        name = display(holds_less, 100)
        lost = f"{name} does not contain the whole model. The rest is lost unless you save in another format."
    box = _question(window, "Save changes?", title, "\n".join([*made, lost]))
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
    return _open(box)


def ask_to_convert(
    window: QWidget,
    title: str,
    changed: str,
    change: Callable[[], object],
    convert: Callable[[], object] | None = None,
) -> QMessageBox:
    """Ask whether to convert the model, or to change no more than an opset number; Cancel calls nothing.

    `changed`: the nodes that the other version defines differently. Without `convert`, the number alone can be changed.
    """
    other = (
        "Convert rewrites them so that the model computes the same."
        if convert is not None
        else "There is no converter for this version."
    )
    box = _question(
        window,
        "Convert model?" if convert is not None else "Change opset number?",
        title,
        f"{changed}\n\n{other} Changing only the version number leaves the nodes as they are; they may compute "
        "something else or become invalid.",
    )
    if convert is not None:
        converting = box.addButton("&Convert…", QMessageBox.ButtonRole.AcceptRole)
        converting.clicked.connect(convert)
    alone = box.addButton("Change &Number Only", QMessageBox.ButtonRole.DestructiveRole)
    alone.clicked.connect(change)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(converting if convert is not None else cancel)
    return _open(box)


def ask_to_replace_truncated(
    window: QWidget, name: str, missing: str, save_as: Callable[[], object], replace: Callable[[], object]
) -> QMessageBox:
    """Ask before a truncated file is replaced by its readable part; Cancel calls nothing.

    `missing`: description of the missing part.
    """
    box = _question(
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
    return _open(box)


def _question(window: QWidget, title: str, text: str, detail: str) -> QMessageBox:
    box = QMessageBox(QMessageBox.Icon.NoIcon, title, text, parent=window)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setInformativeText(detail)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return box


def _open(box: QMessageBox) -> QMessageBox:
    without_icons(box.buttons())
    box.open()
    return box
