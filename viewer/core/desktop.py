"""Registration with the desktop: menu entry, icon and file types, for this user. No Qt.

Linux: files of the freedesktop.org specifications below ``~/.local/share`` (or ``XDG_DATA_HOME``). Windows: keys below
``HKEY_CURRENT_USER\\Software\\Classes`` and a shortcut in the start menu; the program is offered under
"Open with" and does not replace another default program. macOS reads file types from application bundles only.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from onnx_workbench import resources
from onnx_workbench.model.errors import ModelError

_NAME = "onnx-workbench"
_MIME_ICON = "application-x-onnx"

#: File name extensions that open in the program, each with its Windows type and description.
WINDOWS_TYPES = {
    ".onnx": ("OnnxWorkbench.onnx.1", "ONNX model"),
    ".onnxtxt": ("OnnxWorkbench.onnxtxt.1", "ONNX model as text"),
}
_CLASSES = r"Software\Classes"
_APPLICATION = rf"{_CLASSES}\Applications\{_NAME}.exe"
_SHCNE_ASSOCCHANGED = 0x08000000

_MACOS = ModelError(
    "macOS takes file types from application bundles only",
    "Make one with `python -m PyInstaller packaging/onnx_workbench.spec` in a checkout and move it to Applications. "
    "For this installation, choose Open With › Other… in the Finder.",
)


def register() -> str:
    """Add the menu entry, the icon and the file types; return a summary. ModelError if that is not possible."""
    if sys.platform == "darwin":
        raise _MACOS
    if sys.platform == "win32":
        write_registry(import_module("winreg"), program_command(windowed=True))
        _write_shortcut(program_command(windowed=True))
        return "Added to the start menu, and to Open With of .onnx and .onnxtxt files."
    share = data_folder()
    write_desktop_files(share, program_command())
    _refresh(share)
    return f"Added the menu entry, icon and file types below {share}."


def unregister() -> str:
    """Remove everything `register` added; return a summary. ModelError if that is not possible."""
    if sys.platform == "darwin":
        raise _MACOS
    if sys.platform == "win32":
        clean_registry(import_module("winreg"))
        _shortcut().unlink(missing_ok=True)
        return "Removed from the start menu and from Open With."
    share = data_folder()
    remove_desktop_files(share)
    _refresh(share)
    return f"Removed the menu entry, icon and file types below {share}."


def program_command(*, windowed: bool = False) -> list[str]:
    """Return the command that starts this installation. `windowed`: on Windows, without a console."""
    if getattr(sys, "frozen", False):
        return [sys.executable]
    suffix = ".exe" if sys.platform == "win32" else ""
    script = Path(sys.executable).with_name(f"{_NAME}-gui{suffix}" if windowed else f"{_NAME}{suffix}")
    return [str(script)] if script.exists() else [sys.executable, "-m", "onnx_workbench"]


def data_folder() -> Path:
    """Return the folder of this user's desktop files."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")


# Linux


def write_desktop_files(share: Path, command: Sequence[str]) -> None:
    """Write the desktop entry, MIME types and icons below a folder such as /usr/share."""
    for file, source in desktop_files(share).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, file)
    entry = _desktop_entry(share)
    text = entry.read_text(encoding="utf-8")
    words = " ".join(map(_exec_word, command))
    text = re.sub(r"(?m)^Exec=.*$", lambda _: f"Exec={words} %F", text)
    text = re.sub(r"(?m)^TryExec=.*$", lambda _: f"TryExec={_escape(command[0])}", text)
    entry.write_text(text, encoding="utf-8")


def remove_desktop_files(share: Path) -> None:
    """Remove the files of `write_desktop_files`, and folders of icons that are then empty."""
    for file in desktop_files(share):
        file.unlink(missing_ok=True)
        _remove_empty(file.parent, share / "icons")


def desktop_files(share: Path) -> dict[Path, Path]:
    """Return the files to write below a folder, each with the resource to copy."""
    source = resources.path("desktop")
    files = {
        _desktop_entry(share): source / f"{_NAME}.desktop",
        share / "mime" / "packages" / f"{_NAME}.xml": source / f"{_NAME}.xml",
    }
    pictures = {picture.stem.rpartition("-")[2]: picture for picture in source.glob("*.png")}
    sizes = {f"{size}x{size}": picture for size, picture in pictures.items()}
    for folder, picture in {**sizes, "scalable": resources.path("icons/app.svg")}.items():
        icons = share / "icons" / "hicolor" / folder
        files[icons / "apps" / f"{_NAME}{picture.suffix}"] = picture
        files[icons / "mimetypes" / f"{_MIME_ICON}{picture.suffix}"] = picture
    return files


def _desktop_entry(share: Path) -> Path:
    return share / "applications" / f"{_NAME}.desktop"


def _exec_word(word: str) -> str:
    """Quote an argument as the Desktop Entry Specification asks: in double quotes, then as any string."""
    if re.fullmatch(r"[\w@+=:,./-]+", word):
        return word
    quoted = re.sub(r'(["`$\\])', r"\\\1", word).replace("%", "%%")
    return _escape(f'"{quoted}"')


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\")


def _remove_empty(folder: Path, top: Path) -> None:
    while top in folder.parents and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _refresh(share: Path) -> None:
    """Update the desktop's caches, as far as the tools for it are installed."""
    for command in (
        ["update-desktop-database", "-q", str(share / "applications")],
        ["update-mime-database", str(share / "mime")],
        ["gtk-update-icon-cache", "-q", "-t", str(share / "icons" / "hicolor")],
    ):
        program = shutil.which(command[0])
        if program and Path(command[-1]).is_dir():
            subprocess.run([program, *command[1:]], check=False, capture_output=True)


# Windows


def registry_values(command: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return the values to write below HKEY_CURRENT_USER: key, name ("" is the default value) and text."""
    opened = subprocess.list2cmdline(command) + ' "%1"'
    icon = str(resources.path(f"desktop/{_NAME}.ico"))
    values = [(rf"{_APPLICATION}\shell\open\command", "", opened)]
    for extension, (type_name, title) in WINDOWS_TYPES.items():
        values += [
            (rf"{_CLASSES}\{type_name}", "", title),
            (rf"{_CLASSES}\{type_name}\DefaultIcon", "", icon),
            (rf"{_CLASSES}\{type_name}\shell\open\command", "", opened),
            (rf"{_CLASSES}\{extension}\OpenWithProgids", type_name, ""),
            (rf"{_APPLICATION}\SupportedTypes", extension, ""),
        ]
    return values


def write_registry(winreg: ModuleType, command: Sequence[str]) -> None:
    """Write the values; other values of existing keys are kept."""
    for key, name, text in registry_values(command):
        with winreg.CreateKeyEx(winreg.HKEY_CURRENT_USER, key, 0, winreg.KEY_WRITE) as opened:
            winreg.SetValueEx(opened, name, 0, winreg.REG_SZ, text)
    _notify_shell()


def clean_registry(winreg: ModuleType) -> None:
    """Delete the program's own keys, and its one value in the keys that belong to the extensions."""
    for extension, (type_name, _) in WINDOWS_TYPES.items():
        try:
            key = rf"{_CLASSES}\{extension}\OpenWithProgids"
            with winreg.OpenKey(winreg.HKEY_CURRENT_USER, key, 0, winreg.KEY_SET_VALUE) as opened:
                winreg.DeleteValue(opened, type_name)
        except FileNotFoundError:
            pass
    own = {key for key, _, _ in registry_values([]) if not key.endswith("OpenWithProgids")}
    tops = {_APPLICATION, *(rf"{_CLASSES}\{type_name}" for type_name, _ in WINDOWS_TYPES.values())}
    for key in sorted(_with_parents(own, tops), key=len, reverse=True):  # a key can be deleted once it has no subkeys
        try:
            winreg.DeleteKey(winreg.HKEY_CURRENT_USER, key)
        except OSError:
            continue  # it does not exist, or another program has subkeys in it
    _notify_shell()


def _with_parents(keys: Iterable[str], tops: set[str]) -> set[str]:
    """Return keys and the keys above them, up to those in `tops`."""
    found = set()
    for key in keys:
        while key not in found:
            found.add(key)
            if key in tops:
                break
            key = key.rpartition("\\")[0]
    return found


def _notify_shell() -> None:
    """Notify the Explorer of changed file types."""
    if sys.platform == "win32":
        ctypes.windll.shell32.SHChangeNotify(_SHCNE_ASSOCCHANGED, 0, None, None)


def _shortcut() -> Path:
    programs = Path("Microsoft") / "Windows" / "Start Menu" / "Programs"
    return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / programs / "ONNX Workbench.lnk"


def _write_shortcut(command: Sequence[str]) -> None:
    """Write the start menu's shortcut, with the Windows Script Host."""
    script = (
        "$s = (New-Object -ComObject WScript.Shell).CreateShortcut($env:OW_LINK); $s.TargetPath = $env:OW_PROGRAM; "
        "$s.Arguments = $env:OW_ARGUMENTS; $s.IconLocation = $env:OW_ICON; $s.Save()"
    )
    texts = {
        "OW_LINK": str(_shortcut()),
        "OW_PROGRAM": command[0],
        "OW_ARGUMENTS": subprocess.list2cmdline(command[1:]),
        "OW_ICON": str(resources.path(f"desktop/{_NAME}.ico")),
    }
    powershell = shutil.which("powershell")
    if powershell:
        arguments = [powershell, "-NoProfile", "-NonInteractive", "-Command", script]
        subprocess.run(arguments, check=False, capture_output=True, env={**os.environ, **texts})
