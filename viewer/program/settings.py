"""Settings kept between starts: options, recent files, window state.

An option is declared once, with its default, which also gives its type:

    settings.get(THEME)      settings.set(THEME, "dark")
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from PySide6.QtCore import QByteArray, QObject, QSettings, Signal

from onnx_workbench.viewer.program import language
from onnx_workbench.viewer.program.folders import make_state_folder, state_folder

T = TypeVar("T", bool, int, float, str, tuple[str, ...])

RECENT_LIMIT = 20


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option of the settings file: its key, default, and valid values."""

    key: str
    default: T
    title: str = ""  # in the preferences; empty: not shown there
    choices: tuple[T, ...] = ()
    help: str = ""


THEME = Option("appearance/theme", "system", "Theme", choices=("system", "light", "dark", "contrast"))
LANGUAGE = Option(
    language.KEY, language.SYSTEM, "Language (from the next start)", choices=(language.SYSTEM, *language.names())
)  # fmt: skip
DIRECTION = Option("graph/direction", "down", "Direction of the graph", choices=("down", "right"))
SHOW_ATTRIBUTES = Option("graph/attributes", True, "Show attributes in nodes")
SHOW_INITIALIZERS = Option("graph/initializers", True, "Show initializers in nodes")
SHOW_NAMES = Option("graph/names", False, "Show names instead of operator types")
GROUPS = Option(
    "graph/groups", "large", "Group nodes", choices=("large", "always", "never"),
    help="By name scope, else by repeated block; in graphs of more than 60 nodes, in all, or in none.",
)  # fmt: skip
FOLD_SHARED = Option("graph/fold-shared-constants", True, "Show Constants that several nodes use inside each of them")
FOLD_NODES = Option(
    "graph/fold-nodes", True, "Fold shape arithmetic",
    help="Show shape and constant helper nodes as tags on the nodes they feed",
)  # fmt: skip
COLUMNS = Option(
    "graph/columns", True, "Wrap long graphs into columns",
    help="Arrange graphs and open groups that are much longer than wide in columns side by side, or in rows",
)  # fmt: skip
EDGE_NOTES = Option(
    "graph/edge-notes", "range", "Values on edges after a run",
    choices=("none", "range", "magnitude", "mean", "zeros", "histogram"),
)  # fmt: skip
WHEEL_ZOOMS = Option("graph/wheel-zooms", False, "Mouse wheel zooms without Ctrl")
RESTORE_VIEW = Option("graph/restore-view", True, "Reopen files at the last position")
RELOAD_SILENTLY = Option("files/reload-silently", True, "Reload an unmodified file that changed on disk")
RUN_IN_PROCESS = Option(
    "run/own-process",
    True,
    "Run models in a process of their own",
    help="A crash during a run then does not close the window",
)
MEMORY_LIMIT = Option(
    "run/memory-limit", "automatic", "Memory limit of a run",
    choices=("automatic", "1 GB", "2 GB", "4 GB", "8 GB", "16 GB", "32 GB", "64 GB"),
    help="Covers inputs, weights, values and buffers. Three quarters of the memory at most, which is the default.\n"
    "Weights that do not fit are read from their file for each node. A node's temporary arrays are not counted.",
)  # fmt: skip
NAN_ALONE = Option("run/nan-alone", False, "Ignore infinities", help="Search for NaN only")
COMPARE_MERGED = Option("compare/merged", False)
RECENT_FILES: Option[tuple[str, ...]] = Option("files/recent", ())
LAST_FOLDER = Option("files/folder", "")
TOUR_OFFERED = Option("window/tour-offered", False)
#: Panels that the user has closed: they are not opened automatically again.
CLOSED_PANELS: Option[tuple[str, ...]] = Option("window/closed-panels", ())
#: Sources of extensions (see model.extensions): loaded ones, and listed files.
EXTENSIONS: Option[tuple[str, ...]] = Option("extensions/loaded", ())
EXTENSION_FILES: Option[tuple[str, ...]] = Option("extensions/files", ())
OPERATOR_SETS: Option[tuple[str, ...]] = Option("files/operator-sets", ())

#: Options in the preferences, in order.
PREFERENCES: tuple[Option[Any], ...] = (
    THEME, LANGUAGE, DIRECTION, SHOW_ATTRIBUTES, SHOW_INITIALIZERS, SHOW_NAMES, GROUPS, FOLD_NODES, FOLD_SHARED,
    COLUMNS, EDGE_NOTES,
    WHEEL_ZOOMS,
    RESTORE_VIEW, RELOAD_SILENTLY,
    RUN_IN_PROCESS, MEMORY_LIMIT,
    NAN_ALONE,
)  # fmt: skip


class Settings(QObject):
    """Options in one INI file. Cheap to read; Qt writes changes after a short delay. GUI thread."""

    changed = Signal(str)  # the option's key

    def __init__(self, parent: QObject | None = None, file: Path | None = None) -> None:
        super().__init__(parent)
        if file is None:
            with suppress(OSError):
                make_state_folder()
        self._store = QSettings(str(file or state_folder() / "settings.ini"), QSettings.Format.IniFormat)

    def get(self, option: Option[T]) -> T:
        """Return the stored value, or the default if there is none or the stored one is invalid."""
        stored = self._store.value(option.key)
        if stored is None:
            return option.default
        value = _decode(str(stored), option.default)
        if value is None or (option.choices and value not in option.choices):
            return option.default
        return cast("T", value)

    def set(self, option: Option[T], value: T) -> None:
        """Store a value; ValueError if it is not one of the option's choices."""
        if option.choices and value not in option.choices:
            msg = f"{option.key} is one of {', '.join(map(str, option.choices))}; got {value!r}"
            raise ValueError(msg)
        if self.get(option) != value:
            self._store.setValue(option.key, json.dumps(value))
            self.changed.emit(option.key)

    def state(self, name: str) -> QByteArray:
        """Return the stored state of a window or splitter, opaque bytes; empty if there is none."""
        value = self._store.value(f"window/{name}")
        return value if isinstance(value, QByteArray) else QByteArray()

    def set_state(self, name: str, state: QByteArray) -> None:
        """Store the state of a window or splitter, opaque bytes."""
        self._store.setValue(f"window/{name}", state)

    def sync(self) -> None:
        """Write changes now."""
        self._store.sync()

    def recent_files(self) -> list[Path]:
        """Return the recently opened files, newest first, including deleted ones."""
        return [Path(text) for text in self.get(RECENT_FILES)]

    def add_recent_file(self, path: Path) -> None:
        """Move a file to the front of the recent ones."""
        text = str(path.absolute())
        others = [other for other in self.get(RECENT_FILES) if other != text]
        self.set(RECENT_FILES, (text, *others)[:RECENT_LIMIT])

    def remove_recent_file(self, path: Path) -> None:
        """Remove a file from the recent ones."""
        text = str(path.absolute())
        self.set(RECENT_FILES, tuple(other for other in self.get(RECENT_FILES) if other != text))


@lru_cache(maxsize=256, typed=True)  # read by each action at every update
def _decode(stored: str, default: object) -> Any:
    """Convert the stored value to the type of the default; None if it cannot be."""
    try:
        value = json.loads(stored)
    except ValueError:
        return None
    if isinstance(default, tuple):
        return tuple(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else None
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value if type(value) is type(default) else None
