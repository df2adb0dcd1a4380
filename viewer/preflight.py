"""Looks for the system libraries Qt needs before Qt is imported: afterwards a missing one is an abort without a name.

problem = find_problem()     None, or a text for the terminal that says what to install
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Mapping

#: Exit status when the window cannot be opened on this machine.
EXIT_CANNOT_START = 3

#: Shared libraries by the Debian and Ubuntu package that has them, measured on a bare Debian 12.
_ALWAYS = {
    "libglib-2.0.so.0": "libglib2.0-0",
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libfreetype.so.6": "libfreetype6",
    "libfontconfig.so.1": "libfontconfig1",
    "libdbus-1.so.3": "libdbus-1-3",
}
_X11 = {
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
_WAYLAND = {
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libwayland-egl.so.1": "libwayland-egl1",
}


def find_problem(
    environment: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
    can_load: Callable[[str], bool] | None = None,
) -> str | None:
    """Return why no window can be opened here and what to do about it, or None. Takes a few milliseconds."""
    if not platform.startswith("linux"):
        return None
    can_load = can_load or _can_load
    wanted = environment.get("QT_QPA_PLATFORM", "").partition(":")[0]
    missing = _missing(_ALWAYS, can_load)
    if wanted.startswith("wayland"):
        missing |= _missing(_WAYLAND, can_load)
    elif wanted == "xcb":
        missing |= _missing(_X11, can_load)
    elif not wanted:
        if environment.get("DISPLAY"):
            # Under Wayland, too, Qt falls back to X11 when its wayland libraries are missing.
            missing |= _missing(_X11, can_load)
        elif environment.get("WAYLAND_DISPLAY"):
            missing |= _missing(_WAYLAND, can_load)
        elif not missing:
            return _NO_DISPLAY
    return _describe(missing) if missing else None


_NO_DISPLAY = (
    "onnx-workbench: there is no display: neither DISPLAY nor WAYLAND_DISPLAY is set.\n"
    "Start it from a desktop session or with `ssh -X`; commands such as `onnx-workbench info MODEL` need no display."
)


def _missing(libraries: Mapping[str, str], can_load: Callable[[str], bool]) -> dict[str, str]:
    return {library: package for library, package in libraries.items() if not can_load(library)}


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _describe(missing: Mapping[str, str]) -> str:
    return (
        f"onnx-workbench: Qt needs system libraries that are not installed: {', '.join(missing)}.\n"
        f"On Debian and Ubuntu this installs them:\n\n    {install_command(missing.values())}\n"
    )


def install_command(packages: Iterable[str]) -> str:
    """The one line that installs Debian packages."""
    return "sudo apt-get install -y " + " ".join(sorted(set(packages)))


def packages() -> dict[str, str]:
    """Return the libraries that a window needs under X11 and Wayland, each with its Debian package."""
    return {**_ALWAYS, **_X11, **_WAYLAND}


def missing_packages() -> list[str]:
    """Debian packages that are missing for running without a display: what continuous integration installs."""
    return sorted(set(_missing(_ALWAYS, _can_load).values()))
