"""Registration with the desktop: menu entry, icon and file types, for this user. No Qt.

Linux: files of the freedesktop.org specifications below ``~/.local/share`` (or ``XDG_DATA_HOME``). On Windows the
installer does it (packaging/windows); macOS reads file types from application bundles only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from onnx_workbench import resources
from onnx_workbench.model.errors import ModelError

_NAME = "onnx-workbench"
_MIME_ICON = "application-x-onnx"

_ELSEWHERE = {
    "darwin": ModelError(
        "macOS takes file types from application bundles only",
        "Make one with `python -m PyInstaller packaging/onnx_workbench.spec` in a checkout and move it to "
        "Applications. For this installation, choose Open With › Other… in the Finder.",
    ),
    "win32": ModelError(
        "On Windows the installer adds the program to the start menu and to Open With",
        "This installation was made without it: choose Open With › Choose another app in the Explorer.",
    ),
}


def register() -> str:
    """Add the menu entry, the icon and the file types; return a summary. ModelError if that is not possible."""
    share = _checked_folder()
    write_desktop_files(share, program_command())
    _refresh(share)
    return f"Added the menu entry, icon and file types below {share}."


def unregister() -> str:
    """Remove everything `register` added; return a summary. ModelError if that is not possible."""
    share = _checked_folder()
    remove_desktop_files(share)
    _refresh(share)
    return f"Removed the menu entry, icon and file types below {share}."


def program_command() -> list[str]:
    """Return the command that starts this installation."""
    if getattr(sys, "frozen", False):
        return [sys.executable]
    script = Path(sys.executable).with_name(_NAME)
    return [str(script)] if script.exists() else [sys.executable, "-m", "onnx_workbench"]


def _checked_folder() -> Path:
    """Return the folder of this user's desktop files. ModelError on systems that take them from elsewhere."""
    if sys.platform in _ELSEWHERE:
        raise _ELSEWHERE[sys.platform]
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")


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
