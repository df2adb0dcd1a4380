"""Models of other operator sets, or with functions of the same name, are merged and mean what they meant."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnx_workbench.exec.session import Session
from onnx_workbench.model.convert.align_for_merge import align, clashing_functions
from onnx_workbench.model.edits.copy_paste import merge, nodes_of_other_meaning
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from tests.model import builders

HERE = """
<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
here (float[2,3] x) => (float[2,3] mid) { mid = f.twist (x) }
<domain: "f", opset_import: ["" : 21]> twist (v) => (o) { o = Neg (v) }
"""
OTHER = """
<ir_version: 8, opset_import: ["" : 11, "f" : 1]>
other (float[2,3] mid) => (float[2] y) { t = f.%s (mid) y = ReduceSum <axes = [1], keepdims = 0> (t) }
<domain: "f", opset_import: ["" : 11]> %s (v) => (o) { o = %s (v) }
"""


def joined(other_text):
    here, other = builders.document(HERE), Document(builders.model(other_text))
    imports = here.model.opset_imports
    clashes = clashing_functions(here.model, other.model)
    report = align(other, imports, clashes)
    assert not any(nodes_of_other_meaning(other.model, imports))
    builders.one_edit(here, merge, here.model.graph, other.model)
    content = to_bytes(here.model)
    onnx.checker.check_model(content)
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    result = Session(load(content)).run({"x": x}, values="outputs")
    assert not result.failures, result.failures
    return x, result.outputs["y"], [text for text, _ in report.summary()]


def test_operator_sets_are_reconciled_and_other_functions_renamed():
    x, y, reported = joined(OTHER % ("twist", "twist", "Exp"))
    assert np.allclose(y, np.exp(-x).sum(1))
    assert "converted from opset 11 to 21" in reported
    assert "function twist is called twist_1, as its name is taken" in reported


def test_the_same_function_is_not_brought_twice():
    here, other = builders.model(HERE), builders.model(HERE.replace("here", "other"))
    assert clashing_functions(here, other) == set()
    assert not any(nodes_of_other_meaning(other, here.opset_imports))


def test_what_the_version_cannot_express_is_refused_unchanged():
    here = builders.document(HERE.replace("21", "13"))
    text = "o (float[2,2] v) => (float[1] z) { z = Round (v) }"
    other = Document(builders.model(text.replace("Round (v)", "Col2Im (v, v, v)")))
    with pytest.raises(ModelError, match="Col2Im") as caught:
        align(other, here.model.opset_imports, ())
    assert caught.value.title == "The other model cannot be converted to opset 13"
    assert caught.value.detail.endswith("Convert this model to opset 21 first.")
    assert not other.modified
