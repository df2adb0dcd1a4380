"""Messages of very many parts: copied and written in small steps, to the same bytes as in one."""

from __future__ import annotations

import pytest

from onnx_workbench.model.io.protobuf import GraphProto, ModelProto, NodeProto
from onnx_workbench.model.io.wire import LENGTH, encode_tag, encode_varint
from onnx_workbench.model.io.writer.chunked_copy import copy_into, serialized
from onnx_workbench.model.progress import Cancelled, Progress

_MANY = 2_000


def _field(number: int, data: bytes) -> bytes:
    return encode_tag(number, LENGTH) + encode_varint(len(data)) + data


def _large(nodes: int = _MANY) -> ModelProto:
    """A model with something in most of its fields, an empty text that is there and one that is not UTF-8."""
    model = ModelProto(ir_version=10, producer_name="tests", doc_string="", model_version=-3)
    model.opset_import.add(domain="", version=21)
    model.metadata_props.add(key="a", value="b")
    model.MergeFromString(_field(4, b"caf\xe9"))  # domain
    graph = model.graph
    graph.name = "large"
    graph.MergeFromString(_field(10, b"\xff"))  # doc_string
    for index in range(nodes):
        node = graph.node.add(op_type="Relu", name=f"n{index}", input=[f"v{index}"], output=[f"v{index + 1}"])
        if index % 3 == 0:
            node.attribute.add(name="alpha", f=0.5)
        graph.value_info.add(name=f"v{index}").type.tensor_type.elem_type = 1
    graph.initializer.add(name="w", dims=[2], data_type=1, float_data=[1.0, 2.0])
    graph.input.add(name="v0")
    graph.output.add(name=f"v{nodes}")
    model.functions.add(name="f", domain="d", input=["x"]).node.add(op_type="Abs")
    model.training_info.add().algorithm.name = "train"
    return model


class _Counting(Progress):
    checks = 0

    def check(self) -> None:
        """Count, and raise when cancelled."""
        self.checks += 1
        super().check()


@pytest.mark.parametrize("nodes", [0, 3, _MANY])
def test_bytes_are_those_of_one_call(nodes: int) -> None:
    model = _large(nodes)
    assert serialized(model, Progress()) == model.SerializeToString()
    assert serialized(model.graph, Progress()) == model.graph.SerializeToString()


@pytest.mark.parametrize("nodes", [0, 3, _MANY])
def test_a_copy_is_equal_and_its_own(nodes: int) -> None:
    model = _large(nodes)
    before = model.SerializeToString()
    out = ModelProto(producer_name="other")
    out.graph.node.add(op_type="Abs")
    copy_into(out, model, Progress())
    assert out.SerializeToString() == before
    out.graph.node.add(op_type="Abs")
    out.graph.value_info.add()
    assert model.SerializeToString() == before


def test_fields_nobody_knows_come_along() -> None:
    model = _large()
    model.graph.MergeFromString(_field(3000, b"later"))
    model.graph.node[700].MergeFromString(_field(3001, b"still later"))
    model.MergeFromString(_field(3002, b"last"))
    out = ModelProto()
    copy_into(out, model, Progress())
    assert out.SerializeToString() == serialized(model, Progress()) == model.SerializeToString()


def test_large_graphs_are_looked_up_from_between_their_parts() -> None:
    model = _large()
    for work in (lambda p: copy_into(ModelProto(), model, p), lambda p: serialized(model, p)):
        progress = _Counting()
        work(progress)
        assert progress.checks > 2 * _MANY / 500  # nodes and values


def test_work_stops_where_it_is_cancelled() -> None:
    class Soon(_Counting):
        def check(self) -> None:
            """Cancelled at the fifth look."""
            if self.checks == 5:
                self.cancel()
            super().check()

    with pytest.raises(Cancelled):
        serialized(_large(), Soon())
    with pytest.raises(Cancelled):
        copy_into(ModelProto(), _large(), Soon())


def test_other_messages_are_copied_whole() -> None:
    for message in (NodeProto(op_type="Relu"), GraphProto(name="small")):
        out = type(message)()
        copy_into(out, message, Progress())
        assert out == message
        assert serialized(message, Progress()) == message.SerializeToString()
