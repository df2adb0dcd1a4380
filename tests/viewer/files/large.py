"""A model with weights of some size."""

import numpy as np

from onnx_workbench.model.edits import initializers
from onnx_workbench.model.ir.tensors import ArrayTensor
from tests.model import builders

ELEMENTS = 1 << 20  # 4 MB, which take a while


def large_document():
    document = builders.document()
    with document.edit("Weights") as edit:
        weights = ArrayTensor(np.arange(ELEMENTS, dtype=np.float32))
        initializers.set_tensor(edit, builders.value(document, "w"), weights)
    return document
