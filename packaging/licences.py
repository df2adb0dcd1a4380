"""Collects the licences of everything in a bundle into its folder `licences`, Qt's first.

python packaging/licences.py BUNDLE      BUNDLE is the folder that PyInstaller made

Run it in the environment that the bundle was made in: the texts are those of the packages installed there, of Python
and, on Debian, of the system libraries that PyInstaller took along. A package without a licence text is an error.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = "onnx-workbench"
QT_PACKAGES = ("PySide6-Essentials", "shiboken6")  # their wheels bring no licence text
_LICENCE_FILE = re.compile(r"licen[cs]e|copying|notice", re.IGNORECASE)

README = """Licences of what ONNX Workbench consists of

01-Qt            Qt {qt} and Qt for Python, used under the GNU Lesser General Public License, version 3 (LGPL-3.0.txt,
                 which adds to GPL-3.0.txt). They are shared libraries in the folder PySide6 and can be replaced by
                 others with the same interface. Their sources are at https://download.qt.io/official_releases/ .
                 https://doc.qt.io/qt-6/licenses-used-in-qt.html lists licences of code in Qt that others wrote.
ONNX Workbench   Apache License 2.0.
Others           one folder for each package, for Python, and for system libraries that were taken along.
"""


def plain_name(name: str) -> str:
    """Return a package's name as all spellings of it are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required_packages(name: str = PROJECT) -> set[str]:
    """Return a package's dependencies and theirs, as far as they are installed, without optional ones."""
    found: set[str] = set()
    pending = [name]
    while pending:
        for line in metadata.requires(pending.pop()) or []:
            match = re.match(r"[\w.-]+", line)
            required = plain_name(match[0]) if match else ""
            if not required or "extra ==" in line or required in found:
                continue
            try:
                metadata.distribution(required)
            except metadata.PackageNotFoundError:
                continue  # for another system or Python
            found.add(required)
            pending.append(required)
    return found


def collect(bundle: Path) -> Path:
    """Write the folder `licences` of a bundle, and return it."""
    target = bundle / "licences"
    shutil.rmtree(target, ignore_errors=True)
    qt = target / "01-Qt"
    qt.mkdir(parents=True)
    for name in ("LGPL-3.0.txt", "GPL-3.0.txt"):
        shutil.copy(ROOT / "packaging" / "licences" / name, qt)
    (target / "README.txt").write_text(README.format(qt=metadata.version(QT_PACKAGES[0])), encoding="utf-8")
    (target / PROJECT).mkdir()
    shutil.copy(ROOT / "LICENSE", target / PROJECT)
    for name in sorted(required_packages() - {plain_name(one) for one in QT_PACKAGES}):
        _collect_package(name, target / name)
    python = Path(sysconfig.get_path("stdlib")) / "LICENSE.txt"
    (target / "Python").mkdir()
    shutil.copy(python if python.exists() else Path(sys.base_prefix) / "LICENSE.txt", target / "Python")
    query = shutil.which("dpkg-query")
    if query is not None:
        _collect_debian_libraries(query, bundle, target / "system libraries")
    return target


def _collect_package(name: str, target: Path) -> None:
    listed = [file for file in metadata.files(name) or [] if ".dist-info" in file.parts[0]]
    files = [file for file in listed if _LICENCE_FILE.search(str(file))]
    if not files:
        raise SystemExit(f"The package {name} brings no licence text.")
    for file in files:
        copy = target / Path(*(part for part in file.parts[1:] if part != "licenses"))
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(file.locate()), copy)


def _collect_debian_libraries(query: str, bundle: Path, target: Path) -> None:
    """Copy what Debian says of the libraries beside the packages; those with a hash in their names came in wheels."""
    hashed = re.compile(r"-[0-9a-f]{8}")
    for library in sorted((bundle / "_internal").glob("lib*.so*")):
        if library.is_symlink() or hashed.search(library.name) or library.name.startswith("libpython"):
            continue
        command = [query, "--search", f"*/{library.name}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        packages = {line.split(":")[0] for line in done.stdout.splitlines()}
        for package in sorted(packages):
            copyright_file = Path("/usr/share/doc") / package / "copyright"
            if copyright_file.exists():
                target.mkdir(exist_ok=True)
                shutil.copy(copyright_file, target / f"{package}.txt")


if __name__ == "__main__":
    print(collect(Path(sys.argv[1])))
