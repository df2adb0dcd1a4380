"""The language of the window. Translated copies of modules are imported instead of the English ones.

They are in onnx_workbench/languages/<language>, made by packaging/translations.py, for modules with translated
texts only. The language is chosen before the window's modules are imported, so that English costs nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from onnx_workbench.viewer.program.folders import state_folder

if TYPE_CHECKING:
    from PySide6.QtCore import QLocale

#: Key of the setting.
KEY = "appearance/language"
SYSTEM, ENGLISH = "system", "en"

_VARIABLE = "ONNX_WORKBENCH_LANGUAGE"  # passes the choice to child processes
_PACKAGE = __name__.partition(".")[0]
_FOLDER = Path(sys.modules[_PACKAGE].__path__[0]) / "languages"


def available() -> list[str]:
    """Return the languages with translated modules, such as ``zh_CN``."""
    return sorted(path.name for path in _FOLDER.iterdir() if path.is_dir()) if _FOLDER.is_dir() else []


def names() -> dict[str, str]:
    """Return the languages that can be chosen, with their native names."""
    from PySide6.QtCore import QLocale

    return {ENGLISH: "English", **{language: QLocale(language).nativeLanguageName() for language in available()}}


def current() -> str:
    """Return the language whose modules are imported."""
    return next((finder.language for finder in sys.meta_path if isinstance(finder, _Finder)), ENGLISH)


def choose() -> None:
    """Use the language of the setting, else that of the system, if available. Before the window is imported."""
    from PySide6.QtCore import QLocale, QSettings

    if current() != ENGLISH:
        return
    settings = QSettings(str(state_folder() / "settings.ini"), QSettings.Format.IniFormat)
    try:
        language = json.loads(str(settings.value(KEY)))
    except ValueError:
        language = SYSTEM
    if language not in (ENGLISH, *available()):
        language = _of_system([QLocale(tag) for tag in QLocale.system().uiLanguages()])
    if language != ENGLISH:
        os.environ[_VARIABLE] = language
        use_inherited()


def _of_system(locales: Sequence[QLocale]) -> str:
    """Return the first available language, in the script that the user prefers."""
    languages = available()
    for locale in locales:
        if locale.script() == locales[0].script() and locale.name() in languages:
            return locale.name()
        if locale.name().startswith(ENGLISH):
            break
    return ENGLISH


def use_inherited() -> None:
    """Use the language of the window that started this process, if any."""
    language = os.environ.get(_VARIABLE)
    if language in available():
        sys.meta_path.insert(0, _Finder(language))


class _Finder(MetaPathFinder):
    """Finds translated modules; other modules are left to the next finders."""

    def __init__(self, language: str) -> None:
        self.language = language

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Return the spec of a translated module; a package keeps its original search path."""
        package, *parts = name.split(".")
        if package != _PACKAGE or path is None:
            return None
        place = _FOLDER.joinpath(self.language, *parts)
        if (place / "__init__.py").is_file():
            inside = [str(Path(folder) / parts[-1]) for folder in path]
            return spec_from_file_location(name, place / "__init__.py", submodule_search_locations=inside)
        file = place.with_suffix(".py")
        return spec_from_file_location(name, file) if file.is_file() else None
