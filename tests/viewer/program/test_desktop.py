"""Menu entry, icon and file types of an installation: written, taken by the desktop's own tools, and removed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_workbench.viewer.cli.main import main
from onnx_workbench.viewer.program import desktop

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="files of the freedesktop.org specifications")


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@LINUX
def test_registering_adds_files_and_unregistering_removes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    other = tmp_path / "applications" / "other.desktop"
    other.parent.mkdir()
    other.write_text("[Desktop Entry]\n")
    before = files_below(tmp_path)
    assert main(["--register"]) == 0
    added = files_below(tmp_path) - before
    assert "applications/onnx-workbench.desktop" in added
    assert "mime/packages/onnx-workbench.xml" in added
    assert "icons/hicolor/scalable/apps/onnx-workbench.svg" in added
    assert "icons/hicolor/48x48/mimetypes/application-x-onnx.png" in added
    assert main(["--register"]) == 0, "a second time changes nothing"
    assert main(["--unregister"]) == 0
    assert str(tmp_path) in capsys.readouterr().out
    # What the desktop's own tools derive from the files stays, as for every other program.
    assert not [name for name in files_below(tmp_path) if "onnx" in name]
    assert other.exists()
    assert main(["--unregister"]) == 0, "nothing is left to remove"


@LINUX
def test_the_entry_starts_this_installation(tmp_path: Path) -> None:
    desktop.write_desktop_files(tmp_path, ["/opt/my $programs/100%/onnx-workbench", "-m"])
    text = (tmp_path / "applications" / "onnx-workbench.desktop").read_text(encoding="utf-8")
    assert r'Exec="/opt/my \\$programs/100%%/onnx-workbench" -m %F' in text.splitlines()
    assert "TryExec=/opt/my $programs/100%/onnx-workbench" in text.splitlines()
    assert Path(desktop.program_command()[0]).exists()


@LINUX
def test_the_entry_is_valid(tmp_path: Path) -> None:
    validator = shutil.which("desktop-file-validate")
    if validator is None:
        pytest.skip("needs desktop-file-validate")
    desktop.write_desktop_files(tmp_path, ["/opt/a folder/onnx-workbench"])
    entry = tmp_path / "applications" / "onnx-workbench.desktop"
    done = subprocess.run([validator, entry], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@LINUX
@pytest.mark.parametrize(("name", "expected"), [("a.onnx", "application/x-onnx"), ("a.onnxtxt", "text/x-onnx")])
def test_the_desktop_knows_the_file_types(name: str, expected: str, tmp_path: Path) -> None:
    update, gio = shutil.which("update-mime-database"), shutil.which("gio")
    if update is None or gio is None:
        pytest.skip("needs update-mime-database and gio")
    desktop.write_desktop_files(tmp_path, ["/usr/bin/true"])
    subprocess.run([update, tmp_path / "mime"], check=True, capture_output=True)
    (tmp_path / name).write_text('<ir_version: 8, opset_import: ["" : 17]>')
    done = subprocess.run(
        [gio, "info", "-a", "standard::content-type", tmp_path / name],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "XDG_DATA_DIRS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == expected


@pytest.mark.parametrize("system", ["darwin", "win32"])
@pytest.mark.parametrize("option", ["--register", "--unregister"])
def test_other_systems_say_what_to_do_instead(
    system: str, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert main([option]) == 2
    assert "Open With" in capsys.readouterr().err
