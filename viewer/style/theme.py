"""Colours by role, for light and dark, and the look of the widgets built from them.

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

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Node

Mode = Literal["system", "light", "dark"]


@dataclass(frozen=True)
class Theme:
    """One table of colours. Text roles reach 4.5:1 on the backgrounds they stand on (a test holds it)."""

    name: Literal["light", "dark"]
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
    changed: QColor  # a value that differs from the run before
    stale: QColor  # a value an edit made out of date
    added: QColor  # what one of two compared models has alone, as a line or text
    removed: QColor
    edited: QColor  # in both, and not alike
    moved: QColor
    group: QColor  # inside an expanded group
    group_border: QColor

    @property
    def is_dark(self) -> bool:
        """Whether light text stands on dark ground."""
        return self.name == "dark"

    def header(self, category: str) -> QColor:
        """The header colour of a category of operators (see `operator_category`)."""
        return categories()[category].color


@dataclass(frozen=True)
class Category:
    """A kind of operators that share a header colour."""

    name: str
    title: str
    color: QColor
    operators: frozenset[str]


@cache
def categories() -> Mapping[str, Category]:
    """The categories by name, in the order of a legend."""
    return {
        name: Category(name, entry["title"], QColor(entry["color"]), frozenset(entry["operators"]))
        for name, entry in _category_file().items()
        if name != "domains"
    }


@cache
def operator_category(domain: str, op_type: str) -> str:
    """The category of an operator, whatever the version; ``custom`` for one of an unknown domain."""
    by_name = _category_of_operator()
    if op_type in by_name:
        return by_name[op_type]
    domains: Mapping[str, str] = _category_file()["domains"]
    return domains.get(domain, "custom")


def node_category(node: Node) -> str:
    """The category of a node's operator; calls of the model's own functions have one for themselves."""
    model = node.graph.model if node.graph is not None else None
    called = model is not None and model.function(*node.operator) is not None
    return "function" if called else operator_category(node.domain, node.op_type)


@cache
def _category_file() -> Mapping[str, dict[str, str]]:
    return tomllib.loads(resources.path("operator-categories.toml").read_text(encoding="utf-8"))


@cache
def _category_of_operator() -> Mapping[str, str]:
    return {op_type: category.name for category in categories().values() for op_type in category.operators}


@cache
def load_theme(name: Literal["light", "dark"]) -> Theme:
    """The table of one theme."""
    table = tomllib.loads(resources.path("themes.toml").read_text(encoding="utf-8"))[name]
    roles = [field.name for field in fields(Theme) if field.name != "name"]
    return Theme(name=name, **{role: QColor(table[role]) for role in roles})


class Themes(QObject):
    """Which theme is in force: the system's, or the one chosen. GUI thread only."""

    themeChanged = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._mode: Mode = "system"
        self._current = load_theme(_system_theme())
        application = QGuiApplication.instance()
        if isinstance(application, QGuiApplication):
            application.styleHints().colorSchemeChanged.connect(self._update)

    @property
    def current(self) -> Theme:
        """The theme in force."""
        return self._current

    @property
    def mode(self) -> Mode:
        """What was chosen."""
        return self._mode

    def set_mode(self, mode: Mode) -> None:
        """Follow the system, or stay light or dark."""
        self._mode = mode
        scheme = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}.get(mode, Qt.ColorScheme.Unknown)
        QGuiApplication.styleHints().setColorScheme(scheme)  # title bars and native dialogs follow where they can
        self._update()

    def _update(self) -> None:
        wanted = _system_theme() if self._mode == "system" else self._mode
        if wanted != self._current.name:
            self._current = load_theme(wanted)
            self.apply()
            self.themeChanged.emit()

    def apply(self) -> None:
        """Give the application's widgets the colours of the theme in force."""
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.setPalette(palette(self._current))
            for name in _OUTLINED:
                QApplication.setPalette(_outline_palette(self._current), name)


def _system_theme() -> Literal["light", "dark"]:
    if QGuiApplication.instance() is None:
        return "light"
    return "dark" if QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark else "light"


@cache
def themes() -> Themes:
    """The one Themes of the program, made on first use."""
    return Themes()


def theme() -> Theme:
    """The colours to draw with now; light when there is no application (export on the command line)."""
    return themes().current


def palette(colors: Theme) -> QPalette:
    """The widgets' palette in a theme's colours."""
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


#: PySide takes class names as text, though its annotations say bytes.
_OUTLINED: tuple[Any, ...] = ("QCheckBox", "QRadioButton", "QLineEdit", "QAbstractSpinBox", "QTreeView")


def _outline_palette(colors: Theme) -> QPalette:
    """Fusion outlines boxes and fields with the window's colour, darkened: on dark ground nobody would see them."""
    result = palette(colors)
    if colors.is_dark:
        result.setColor(QPalette.ColorRole.Window, colors.muted)
    return result


def monospace(size: float | None = None) -> QFont:
    """The system's monospace font, in points; for numbers, names and shapes that stand in columns."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setPointSizeF(size if size is not None else QGuiApplication.font().pointSizeF())
    return font


def as_mode(text: str) -> Mode:
    """A remembered mode; ``system`` for anything else."""
    return cast("Mode", text) if text in ("light", "dark") else "system"
