"""Half characters are refused by the edit that brings them, not by the save long after it."""

import numpy as np
import pytest

from onnx_workbench.model.edits import attributes, find_replace, initializers, interface, nodes, properties, values
from onnx_workbench.model.edits.functions import add_function
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import InsertNode, SetGraphOutputs, SetInput, SetInputs
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.devices import DeviceConfiguration
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, SequenceType, Shape, TensorType
from tests.model import builders
from tests.model.snapshots import snapshot

HALF = "\ud83d"
BYTE = "\udcff"  # how a byte of a file that is not UTF-8 is kept


def first(edit):
    return builders.node(edit.model, "first")


EDITS = {
    "node name": lambda e, t: nodes.rename_node(e, first(e), t),
    "operator": lambda e, t: nodes.change_operator(e, first(e), t),
    "domain": lambda e, t: nodes.change_operator(e, first(e), "Relu", t),
    "new node": lambda e, t: nodes.add_node(e, e.model.graph, "Relu", name=t),
    "value name": lambda e, t: values.rename_value(e, builders.value(e.model, "a"), t),
    "attribute": lambda e, t: attributes.set_attribute(e, first(e), "text", t),
    "attribute name": lambda e, t: attributes.set_attribute(e, first(e), t, 1),
    "attribute of a new node": lambda e, t: nodes.add_node(e, e.model.graph, "Relu", attributes={"texts": ["a", t]}),
    "strings": lambda e, t: initializers.add_initializer(
        e, e.model.graph, ArrayTensor(np.array(["a", t], object), ElementType.STRING)
    ),
    "doc string": lambda e, t: properties.set_text(e, e.model, "doc_string", t),
    "metadata key": lambda e, t: properties.set_metadata(e, e.model, t, "value"),
    "metadata": lambda e, t: properties.set_metadata(e, first(e), "key", t),
    "symbol": lambda e, t: values.set_type(
        e, builders.value(e.model, "a"), TensorType(ElementType.FLOAT, Shape((t, 4)))
    ),
    "denotation of a type": lambda e, t: values.set_type(
        e, builders.value(e.model, "a"), TensorType(ElementType.FLOAT, None, t)
    ),
    "denotation of a size": lambda e, t: values.set_type(
        e, builders.value(e.model, "a"), TensorType(ElementType.FLOAT, Shape((1,), (t,)))
    ),
    "type within a type": lambda e, t: values.set_type(
        e, builders.value(e.model, "a"), SequenceType(TensorType(ElementType.FLOAT, Shape((t,))))
    ),
    "batch": lambda e, t: interface.set_batch(e, e.model.graph, t),
    "input": lambda e, t: interface.add_input(e, e.model.graph, t),
    "devices": lambda e, t: properties.set_configurations(e, (DeviceConfiguration(t, 1, ("a",)),)),
    "replacement": lambda e, t: find_replace.replace_all(
        e, filter(None, find_replace.find_replacements(e.model.graphs(), "first", t, ["node names"]))
    ),
    "function": add_function,
    "input of a new node": lambda e, t: e.do(InsertNode(e.model.graph, Node("Relu", (Value(t),), (Value("new"),)))),
    "undefined input": lambda e, t: e.do(SetInput(first(e), 0, Value(t))),
    "undefined inputs": lambda e, t: e.do(SetInputs(first(e), (Value(t),))),
    "undefined output": lambda e, t: e.do(SetGraphOutputs(e.model.graph, (Value(t),))),
}


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_half_a_character_is_refused_at_the_edit(change):
    document = builders.document()
    before = snapshot(document.model)
    with pytest.raises(ModelError, match="unpaired surrogate"), document.edit("Edit") as edit:
        change(edit, f"a{HALF}b")
    assert snapshot(document.model) == before


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("text", [f"a{BYTE}", "\U0001f600", "é"])
def test_other_texts_are_taken_and_written(change, text):
    document = builders.document()
    builders.one_edit(document, change, text)
    assert document.modified
    assert text.encode("utf-8", "surrogateescape") in to_bytes(document.model)
