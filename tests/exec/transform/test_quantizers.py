"""Quantization of real models against ONNX Runtime's quantizer: no greater loss, no larger file, the same numbers."""

import logging

import pytest

from tests.quantizers import INPUTS, WAYS, ours, theirs
from tests.real_models import RealModels

_DECIBELS = 1.0  # as much comes of how single numbers are rounded
_SIZE = 1.06  # scopes of nodes stay, which ONNX Runtime leaves out


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", INPUTS)
def test_loss_and_size_stay_below_onnx_runtimes_quantizer(real_models: RealModels, tmp_path, monkeypatch, name, way):
    pytest.importorskip("onnxruntime.quantization")
    if way == "blocks":
        pytest.importorskip("onnx_ir")
    monkeypatch.setattr(logging, "warning", lambda *_: None)
    path, samples = real_models / name / "model.onnx", list(INPUTS[name]())
    reference = theirs(path, way, samples, tmp_path)
    if reference is None:
        pytest.skip("ONNX Runtime's quantizer quantizes nothing of it")
    found = ours(path, way, samples, tmp_path)
    print(f"{name} {way}: {found} {reference}")
    assert found.loss >= reference.loss - _DECIBELS
    assert found.size <= reference.size * _SIZE
    assert found.agrees > 100
