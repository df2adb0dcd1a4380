"""The folder of settings and journals is of the user alone."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from onnx_workbench.viewer.program.folders import make_state_folder
from onnx_workbench.viewer.program.settings import Settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the folder is elsewhere, and Windows has no modes")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("is_there", [False, True])
def test_others_cannot_look_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    monkeypatch.delenv("ONNX_WORKBENCH_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "onnx-workbench"
    if is_there:
        folder.mkdir(mode=0o755)
    Settings()
    assert mode(folder) == 0o700


def test_a_folder_that_the_user_chose_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_WORKBENCH_STATE", str(tmp_path / "mine"))
    assert mode(make_state_folder()) == 0o700
    (tmp_path / "mine").chmod(0o755)
    assert mode(make_state_folder()) == 0o755
