"""Colours by role for the light, the dark and the high-contrast theme, and the widget palette built from them.

theme().edge        the colour now        themes().themeChanged        when to repaint
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from onnx_workbench import resources
from onnx_workbench.model.schemas import traits

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Node

ThemeName = Literal["light", "dark", "contrast"]
Mode = Literal["system", ThemeName]


@dataclass(frozen=True)
class Theme:
    """A colour table. Text roles reach a contrast of 4.5:1 on their backgrounds (checked by a test)."""

    name: ThemeName
    window: QColor  # behind docks, tool bars and the status line
    panel: QColor  # lists, tables, text fields
    alternate: QColor  # every other row
    border: QColor  # lines between widgets
    canvas: QColor  # behind the graph
    node: QColor  # a node's body
    node_border: QColor
    header_text: QColor  # on a category's colour
    endpoint: QColor  # the pills of graph inputs and outputs
    text: QColor
    muted: QColor  # secondary text
    edge: QColor
    label: QColor  # behind an edge's label
    accent: QColor  # selection, focus, links
    accent_text: QColor  # on the accent
    hover: QColor  # under the pointer
    match: QColor  # a search result
    warning: QColor
    error: QColor  # errors and nothing else
    changed: QColor  # a value that differs from the previous run
    stale: QColor  # a stale value
    added: QColor  # one of two compared models only, as a line or text
    removed: QColor
    edited: QColor  # in both models, but different
    moved: QColor
    group: QColor  # inside an expanded group
    group_border: QColor

    @property
    def is_dark(self) -> bool:
        """Whether text is light on a dark background."""
        return self.name != "light"

    def header(self, category: str) -> QColor:
        """Return the header colour of a category of operators; one for all in high contrast."""
        return self.endpoint if self.name == "contrast" else categories()[category].color


@dataclass(frozen=True)
class Category:
    """A group of operators with one header colour."""

    name: str
    title: str
    color: QColor


@cache
def categories() -> Mapping[str, Category]:
    """Return the categories by name, in legend order."""
    return {
        name: Category(name, entry["title"], QColor(entry["color"]))
        for name, entry in _category_file().items()
        if name != "domains"
    }


@cache
def operator_category(domain: str, op_type: str) -> str:
    """Return the category of an operator, whatever the version; ``custom`` for an unknown domain."""
    domains: Mapping[str, str] = _category_file()["domains"]
    return traits.category(op_type, domain) or domains.get(domain, "custom")


def node_category(node: Node) -> str:
    """Return the category of a node's operator; calls of model functions have their own."""
    model = node.graph.model if node.graph is not None else None
    called = model is not None and model.function(*node.operator) is not None
    return "function" if called else operator_category(node.domain, node.op_type)


@cache
def _category_file() -> Mapping[str, dict[str, str]]:
    return tomllib.loads(resources.path("operator-categories.toml").read_text(encoding="utf-8"))


@cache
def load_theme(name: ThemeName) -> Theme:
    """Load the table of one theme."""
    table = tomllib.loads(resources.path("themes.toml").read_text(encoding="utf-8"))[name]
    roles = [field.name for field in fields(Theme) if field.name != "name"]
    return Theme(name=name, **{role: QColor(table[role]) for role in roles})


class Themes(QObject):
    """The active theme: the system's, or the chosen one. GUI thread only."""

    themeChanged = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._mode: Mode = "system"
        self._current = load_theme(_system_theme())
        application = QGuiApplication.instance()
        if isinstance(application, QGuiApplication):
            hints = application.styleHints()
            hints.colorSchemeChanged.connect(self._update)
            hints.accessibility().contrastPreferenceChanged.connect(self._update)

    @property
    def current(self) -> Theme:
        """The active theme."""
        return self._current

    @property
    def mode(self) -> Mode:
        """The chosen mode."""
        return self._mode

    def set_mode(self, mode: Mode) -> None:
        """Set the mode: the system's, or one theme."""
        self._mode = mode
        schemes = {"system": Qt.ColorScheme.Unknown, "light": Qt.ColorScheme.Light}
        scheme = schemes.get(mode, Qt.ColorScheme.Dark)
        QGuiApplication.styleHints().setColorScheme(scheme)  # title bars and native dialogs follow where supported
        self._update()

    def _update(self) -> None:
        wanted = _system_theme() if self._mode == "system" else self._mode
        if wanted != self._current.name:
            self._current = load_theme(wanted)
            self.apply()
            self.themeChanged.emit()

    def apply(self) -> None:
        """Apply the active theme to the application's widgets."""
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.setPalette(palette(self._current))
            for name in _OUTLINED:
                QApplication.setPalette(outline_palette(self._current), name)


def _system_theme() -> ThemeName:
    if QGuiApplication.instance() is None:
        return "light"
    hints = QGuiApplication.styleHints()
    if hints.accessibility().contrastPreference() == Qt.ContrastPreference.HighContrast:
        return "contrast"
    return "dark" if hints.colorScheme() == Qt.ColorScheme.Dark else "light"


@cache
def themes() -> Themes:
    """Return the Themes singleton, created on first use."""
    return Themes()


def theme() -> Theme:
    """Return the active theme; light without an application (export on the command line)."""
    return themes().current


def palette(colors: Theme) -> QPalette:
    """Return the widget palette of a theme."""
    result = QPalette()
    role = QPalette.ColorRole
    for key, color in {
        role.Window: colors.window,
        role.WindowText: colors.text,
        role.Base: colors.panel,
        role.AlternateBase: colors.alternate,
        role.ToolTipBase: colors.panel,
        role.ToolTipText: colors.text,
        role.PlaceholderText: colors.muted,
        role.Text: colors.text,
        role.Button: colors.window,
        role.ButtonText: colors.text,
        role.BrightText: colors.error,
        role.Highlight: colors.accent,
        role.HighlightedText: colors.accent_text,
        role.Accent: colors.accent,
        role.Link: colors.accent,
        role.LinkVisited: colors.accent,
        role.Light: colors.panel,
        role.Midlight: colors.alternate,
        role.Mid: colors.border,
        role.Dark: colors.border,
        role.Shadow: colors.border,
    }.items():
        result.setColor(key, color)
    disabled = QPalette.ColorGroup.Disabled
    for key in (role.WindowText, role.Text, role.PlaceholderText, role.ButtonText, role.HighlightedText):
        result.setColor(disabled, key, colors.stale)
    result.setColor(disabled, role.Highlight, colors.border)
    return result


#: PySide expects class names as str, although its annotations say bytes.
_OUTLINED: tuple[Any, ...] = ("QCheckBox", "QRadioButton", "QLineEdit", "QAbstractSpinBox", "QTreeView")


def outline_palette(colors: Theme) -> QPalette:
    """Fusion outlines frames with the darkened window colour, which would be invisible on a dark background."""
    result = palette(colors)
    if colors.is_dark:
        result.setColor(QPalette.ColorRole.Window, colors.muted)
    return result


def monospace(size: float | None = None) -> QFont:
    """Return the system's monospace font, in points; for numbers, names and aligned shapes."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setPointSizeF(size if size is not None else QGuiApplication.font().pointSizeF())
    return font


def as_mode(text: str) -> Mode:
    """Return a stored mode; ``system`` for anything else."""
    return cast("Mode", text) if text in ("light", "dark", "contrast") else "system"
