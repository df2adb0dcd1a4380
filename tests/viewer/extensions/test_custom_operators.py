"""Operator-set documents are known again at the next start."""

import pytest
import shiboken6

from onnx_workbench.model import schemas
from onnx_workbench.model.io.protobuf import message_class
from onnx_workbench.viewer.extensions.custom_operators import OperatorSets
from onnx_workbench.viewer.program.settings import OPERATOR_SETS, Settings


@pytest.fixture
def path(tmp_path):
    document = message_class("OperatorSetProto")()
    document.magic, document.ir_version, document.domain, document.opset_version = "ONNXOPSET", 10, "com.acme", 1
    operator = document.operator.add()
    operator.op_type, operator.since_version = "Blend", 1
    path = tmp_path / "acme.onnxopset"
    path.write_bytes(document.SerializeToString())
    return path


def ended(sets):
    """What the end of the program does to its operators."""
    for document in list(sets.opened):
        schemas.unregister(document.schemas)


def test_what_was_open_is_open_at_the_next_start(qapp, tmp_path, path):
    first, settings = OperatorSets(), Settings(file=tmp_path / "settings.ini")
    assert first.remember(settings) == []
    first.open(path)
    settings.sync()
    ended(first)
    assert schemas.find("Blend", 1, "com.acme") is None
    again, settings = OperatorSets(), Settings(file=tmp_path / "settings.ini")
    assert again.remember(settings) == []
    assert schemas.find("Blend", 1, "com.acme") is not None
    again.close(again.opened[0])
    assert settings.get(OPERATOR_SETS) == ()
    assert schemas.find("Blend", 1, "com.acme") is None


def test_one_that_is_gone_is_reported_once(qapp, tmp_path, path):
    settings = Settings(file=tmp_path / "settings.ini")
    settings.set(OPERATOR_SETS, (str(path), str(tmp_path / "gone.onnxopset")))
    sets = OperatorSets()
    (error,) = sets.remember(settings)
    assert "gone.onnxopset" in str(error)
    assert settings.get(OPERATOR_SETS) == (str(path),)
    ended(sets)


def test_settings_that_are_gone_are_not_written_to(qapp, tmp_path, path):
    sets, settings = OperatorSets(), Settings(file=tmp_path / "settings.ini")
    sets.remember(settings)
    shiboken6.delete(settings)
    sets.open(path)
    ended(sets)
