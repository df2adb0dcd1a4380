"""Builds the Linux downloads in dist/: a .deb, a .tar.gz with install.sh, and SHA256SUMS.

python packaging/linux/build.py              all of it
python packaging/linux/build.py --reuse      with the bundle that PyInstaller made before

Run it on the oldest system the program is to start on, in an environment with the project and PyInstaller installed.
The bundle is started before it is packed, as it can be broken in ways its building does not show.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from onnx_workbench.viewer import preflight
from onnx_workbench.viewer.program.desktop import write_desktop_files

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
NAME = "onnx-workbench"
SAMPLE = ROOT / "resources" / "sample" / "digits.onnx"

release = runpy.run_path(str(ROOT / "packaging" / "release.py"))
collect_licences = runpy.run_path(str(ROOT / "packaging" / "licences.py"))["collect"]

#: What a desktop does not load: plug-ins for bare screens, of the network and of GTK.
UNUSED = (
    "PySide6/Qt/plugins/egldeviceintegrations",
    "PySide6/Qt/plugins/networkinformation",
    "PySide6/Qt/plugins/platforms/libqeglfs.so",
    "PySide6/Qt/plugins/platforms/libqlinuxfb.so",
    "PySide6/Qt/plugins/platforms/libqminimal*.so",
    "PySide6/Qt/plugins/platforms/libqvkkhrdisplay.so",
    "PySide6/Qt/plugins/platforms/libqvnc.so",
    "PySide6/Qt/plugins/platformthemes/libqgtk3.so",
    "PySide6/Qt/plugins/tls",
    "python3*/lib-dynload/readline.*",  # under the GPL, and for terminals
)
#: Libraries that every Debian has, with their packages; the host's own would demand the host's glibc.
OF_SYSTEM = {"libstdc++.so.6": "libstdc++6", "libgcc_s.so.1": "libgcc-s1", "libexpat.so.1": "libexpat1"}

COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ONNX Workbench

Files: *
Copyright: The ONNX Workbench developers
License: Apache-2.0
 The text is in /usr/share/common-licenses/Apache-2.0. The licences of Qt, Python and all other parts are in
 /opt/onnx-workbench/licences.
"""


def main() -> None:
    """Build, prune, start and pack."""
    version = release["VERSION"]
    built = DIST / "bundle" / NAME
    if "--reuse" not in sys.argv[1:]:
        run(
            *[sys.executable, "-m", "PyInstaller", "--noconfirm", "--distpath", str(DIST / "bundle")],
            *["--workpath", str(ROOT / "build" / "pyinstaller"), str(ROOT / "packaging" / "onnx_workbench.spec")],
        )
    folder = DIST / f"{NAME}-{version}-linux-x86_64"
    shutil.rmtree(folder, ignore_errors=True)
    bundle = folder / NAME
    shutil.copytree(built, bundle, symlinks=True)
    prune(bundle / "_internal")
    collect_licences(bundle)
    start(bundle / NAME)
    shutil.copy(ROOT / "packaging" / "linux" / "install.sh", folder)
    shutil.copy(ROOT / "LICENSE", folder)
    archive = DIST / f"{folder.name}.tar.gz"
    run("tar", "-C", str(DIST), "--owner=0", "--group=0", "-czf", str(archive), folder.name)
    package = build_package(bundle, version)
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in (archive, package))
    (DIST / "SHA256SUMS").write_text(sums, encoding="utf-8")
    print(sums, end="")


def run(*command: str, environment: dict[str, str] | None = None) -> str:
    """Run a command that must succeed; return its output."""
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    ).stdout


def prune(internal: Path) -> None:
    """Remove what is never loaded, then the libraries that only that needed; strip libpython of its symbols."""
    for pattern in UNUSED:
        for path in internal.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    languages = {path.name for path in (internal / "onnx_workbench" / "languages").iterdir()}
    for path in (internal / "PySide6" / "Qt" / "translations").iterdir():
        if path.stem.removeprefix("qtbase_") not in languages:
            path.unlink()
    for name in OF_SYSTEM:
        (internal / name).unlink(missing_ok=True)
    while True:
        needed = set().union(*(needed_libraries(file) for file in elf_files(internal)))
        libraries = [*internal.glob("lib*.so*"), *(internal / "PySide6" / "Qt" / "lib").glob("lib*.so*")]
        unneeded = [
            path for path in libraries if path.name not in needed and not path.name.startswith("libpython")
        ]  # which the launcher loads by its name
        if not unneeded:
            break
        for path in unneeded:
            path.unlink()
    for library in internal.glob("libpython*"):
        run("strip", str(library))


def elf_files(folder: Path) -> list[Path]:
    """Return the programs and libraries in a folder, links aside."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    found.append(path)
    return found


def needed_libraries(file: Path) -> set[str]:
    """Return the names of the libraries that a program or library is linked with."""
    return set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", str(file))))


def least_glibc(folder: Path) -> str:
    """Return the oldest version of glibc that everything in a folder loads with."""
    versions = {
        tuple(map(int, found.split(".")))
        for file in elf_files(folder)
        for found in re.findall(r"GLIBC_(2\.\d+)", run("objdump", "-p", str(file)))
    }
    return ".".join(map(str, max(versions)))


def start(program: Path) -> None:
    """Run a command, draw a graph and open a window in Chinese; it must still be open after ten seconds."""
    offscreen = {"QT_QPA_PLATFORM": "offscreen"}
    run(str(program), "info", str(SAMPLE))
    run(str(program), "run", str(SAMPLE), "--seed", "1")
    run(str(program), "render", str(SAMPLE), "-o", str(ROOT / "build" / "started.svg"), environment=offscreen)
    chinese = {**os.environ, **offscreen, "LANG": "zh_CN.UTF-8"}
    window = subprocess.Popen([str(program), "--new-instance", "--sample"], env=chinese)
    try:
        status = window.wait(10)
    except subprocess.TimeoutExpired:
        window.terminate()
        window.wait(30)
    else:
        raise SystemExit(f"The bundle did not stay open: exit status {status}.")


def build_package(bundle: Path, version: str) -> Path:
    """Build the .deb around a bundle and return it."""
    tree = ROOT / "build" / "deb"
    shutil.rmtree(tree, ignore_errors=True)
    share = tree / "usr" / "share"
    program = tree / "opt" / NAME
    program.parent.mkdir(parents=True)
    shutil.copytree(bundle, program, symlinks=True)
    (tree / "usr" / "bin").mkdir(parents=True)
    (tree / "usr" / "bin" / NAME).symlink_to(f"/opt/{NAME}/{NAME}")
    write_desktop_files(share, [NAME])
    write(share / "metainfo" / f"{release['APPSTREAM_ID']}.metainfo.xml", release["appstream"]())
    write(share / "doc" / NAME / "copyright", COPYRIGHT)
    write(share / "bash-completion" / "completions" / NAME, run(str(bundle / NAME), "completion", "bash"))
    page = share / "man" / "man1" / f"{NAME}.1.gz"
    page.parent.mkdir(parents=True)
    page.write_bytes(gzip.compress(run(str(bundle / NAME), "man").encode(), mtime=0))
    needed = {**preflight.packages(), **OF_SYSTEM}
    size = sum(path.lstat().st_size for path in tree.rglob("*")) // 1024
    write(
        tree / "DEBIAN" / "control",
        f"Package: {NAME}\n"
        f"Version: {version}\n"
        "Architecture: amd64\n"
        f"Maintainer: {release['PROJECT']['authors'][0]['name']}\n"
        f"Installed-Size: {size}\n"
        f"Depends: {', '.join([f'libc6 (>= {least_glibc(tree)})', *sorted(set(needed.values()))])}\n"
        "Recommends: desktop-file-utils, shared-mime-info\n"  # which tell desktops of its menu entry and file types
        "Section: science\n"
        "Priority: optional\n"
        + (f"Homepage: {release['HOME_PAGE']}\n" if release["HOME_PAGE"] else "")
        + f"Description: {release['PROJECT']['description']}\n"
        " Opens any ONNX model, shows it as a graph, lets you change anything in it with\n"
        " undo, and runs it in a built-in executor so that every intermediate tensor can\n"
        " be looked at.\n",
    )
    package = DIST / f"{NAME}_{version}_amd64.deb"
    run("dpkg-deb", "--root-owner-group", "-Zxz", "-z6", "--build", str(tree), str(package))
    return package


def write(path: Path, text: str) -> None:
    """Write a text, and the folders it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
