"""A model with weights of some size."""

import numpy as np

from onnx_workbench.model.edits import initializers
from onnx_workbench.model.ir.tensors import ArrayTensor
from tests.model import builders

ELEMENTS = 1 << 20  # 4 MB, which take a while

#: The usual model, for weights of any number.
_TEXT = (
    builders.CHAIN.replace("[N, 4]", "[N, M]")
    .replace("float[4] w = {1.0, 2.0, 3.0, 4.0}", "float[1] w = {1.0}")
    .replace("float[4] b = {0.5, 0.5, 0.5, 0.5}", "float[1] b = {0.5}")
)


def large_document():
    document = builders.document(_TEXT)
    with document.edit("Weights") as edit:
        weights = ArrayTensor(np.arange(ELEMENTS, dtype=np.float32))
        initializers.set_tensor(edit, builders.value(document, "w"), weights)
    return document
