"""What else belongs to a file than its bytes is as it was after a save."""

import os
import stat
import sys

import pytest

from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from tests.model.io.saved_models import edit

pytestmark = pytest.mark.skipif(os.name == "nt", reason="of POSIX systems")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("bits", [0o600, 0o640, 0o644, 0o666])
def test_permissions_stay(path, bits):
    path.chmod(bits)
    model = load(path)
    edit(model)
    save(model, path)
    assert mode(path) == bits


@pytest.mark.parametrize(("bits", "expected"), [(0o600, 0o600), (0o640, 0o640), (0o666, 0o644), (0o755, 0o644)])
def test_a_copy_can_be_read_by_nobody_who_cannot_read_the_model(path, bits, expected):
    path.chmod(bits)
    copy = path.with_name("copy.onnx")
    saved = save(load(path), copy, Storage(DataLayout.ONE_FILE, threshold=0))
    assert mode(copy) == expected
    assert [mode(data) for data in saved.data_files] == [expected]


@pytest.mark.skipif(sys.platform != "linux", reason="Python knows extended attributes on Linux alone")
def test_extended_attributes_stay(path):
    try:
        os.setxattr(path, "user.origin", b"https://example.org")
    except OSError:
        pytest.skip("this disk has no extended attributes")
    model = load(path)
    edit(model)
    save(model, path)
    assert os.getxattr(path, "user.origin") == b"https://example.org"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(path):
    os.chown(path, 12, 34)
    model = load(path)
    edit(model)
    save(model, path)
    assert (path.stat().st_uid, path.stat().st_gid) == (12, 34)
