"""Preferences dialog: a row for every option with a title; changes apply immediately."""

from __future__ import annotations

from functools import partial
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QDialog, QFormLayout, QTabWidget, QVBoxLayout, QWidget

from onnx_workbench.viewer.dialogs.extensions import ExtensionList
from onnx_workbench.viewer.program import language
from onnx_workbench.viewer.program.settings import PREFERENCES, Option, Settings
from onnx_workbench.viewer.style.choices import choice_title
from onnx_workbench.viewer.widgets.dialog_buttons import close_button


class PreferencesDialog(QDialog):
    """Shows and sets the options of settings.PREFERENCES; follows changes made elsewhere."""

    def __init__(self, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Preferences")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._settings = settings
        self.editors: dict[str, QWidget] = {}
        form = QFormLayout()
        for option in PREFERENCES:
            self._add(form, option)
        buttons = close_button(self)
        options = QWidget()
        options.setLayout(form)
        self.extensions = ExtensionList(settings)
        tabs = QTabWidget()
        tabs.addTab(options, "&Options")
        tabs.addTab(self.extensions, "&Extensions")
        layout = QVBoxLayout(self)
        layout.addWidget(tabs)
        layout.addWidget(buttons)
        settings.changed.connect(self._read)
        self._read()

    def _add(self, form: QFormLayout, option: Option[Any]) -> None:
        if isinstance(option.default, bool):
            box = QCheckBox(option.title)
            box.toggled.connect(partial(self._settings.set, option))
            form.addRow(box)
            editor: QWidget = box
        else:
            choice = QComboBox()
            choice.setAccessibleName(option.title)
            for value in option.choices:
                choice.addItem(language.names().get(value) or choice_title(value), value)
            choice.activated.connect(lambda _: self._settings.set(option, choice.currentData()))
            form.addRow(f"{option.title}:", choice)
            editor = choice
        editor.setToolTip(option.help)
        self.editors[option.key] = editor

    def _read(self, *_: object) -> None:
        for option in PREFERENCES:
            editor = self.editors[option.key]
            value = self._settings.get(option)
            if isinstance(editor, QCheckBox):
                editor.setChecked(bool(value))
            elif isinstance(editor, QComboBox):
                editor.setCurrentIndex(editor.findData(value))
