"""Models to convert, what to feed them and what comes out."""

from __future__ import annotations

from functools import cache

import numpy as np

from onnx_workbench.exec.session import Session
from onnx_workbench.model.convert import convert_opset
from onnx_workbench.model.edits.declare_types import declare_all
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from tests.model import builders


def made(opset, text, ir_version=8):
    return Document(load(declared(f'<ir_version: {ir_version}, opset_import: ["": {opset}]> {text}')))


@cache
def declared(text):
    """The bytes of a model with all its types."""
    document = builders.document(text)
    builders.one_edit(document, declare_all, infer(document.model))
    return to_bytes(document.model)


def fed(model, seed=0):
    """Random feeds for a model whose inputs are all static."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in model.graph.inputs:
        if value.initializer is None:
            dtype = value.type.element_type.numpy_dtype
            array = rng.standard_normal(value.type.shape.dims)
            feeds[value.name] = (array * (4 if dtype.kind in "iu" else 1)).astype(dtype)
    return feeds


def outputs(model, feeds):
    result = Session(model).run(feeds, values="outputs")
    assert not result.failures, result.failures
    return result.outputs


def to_opset(document, version):
    with document.edit("Convert") as edit:
        return convert_opset(edit, version)
