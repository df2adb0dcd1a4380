"""Small models as exporters write them: at most as many nodes left as the best of other simplifiers leaves."""

from __future__ import annotations

import pytest

from onnx_workbench.exec.engine.constant_folding import evaluate
from onnx_workbench.exec.inspect.equivalence import compare_models
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.simplify.pipeline import simplify
from tests.model.simplify.exported import ALL, exported


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_little_is_left_of_what_exporters_write(name: str) -> None:
    content = exported(name).SerializeToString()
    document, original = Document(load(content)), load(content)
    report = simplify(document, evaluate=evaluate)
    assert report.after.nodes <= ALL[name][2]
    assert [str(v.type) for v in document.model.graph.inputs] == [str(v.type) for v in original.graph.inputs]
    agreement = compare_models(original, document.model, runs=2)
    assert agreement.agrees, str(agreement)
