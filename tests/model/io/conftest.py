"""Model files for tests of saving."""

import pytest

from onnx_workbench.model.io.reader import read
from tests.model.io.saved_models import proto_of, weights


@pytest.fixture
def scan_everything(monkeypatch):
    """Small files are scanned too, so that their weights stay in the file as those of large ones do."""
    monkeypatch.setattr(read, "PARSED_WHOLE", 0)


@pytest.fixture
def path(tmp_path):
    """A model with its weights inside."""
    path = tmp_path / "m.onnx"
    path.write_bytes(proto_of(weights()).SerializeToString())
    return path


@pytest.fixture
def external_path(tmp_path):
    """A model with its weights in a file beside it."""
    arrays = weights()
    path = tmp_path / "e.onnx"
    path.write_bytes(proto_of(arrays, "e.bin").SerializeToString())
    (tmp_path / "e.bin").write_bytes(b"".join(a.tobytes() for a in arrays.values()))
    return path
