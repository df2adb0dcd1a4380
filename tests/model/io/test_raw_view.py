import onnx
import onnx.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.edits import nodes
from onnx_workbench.model.io.raw_view import (
    RawStretch,
    branch,
    contents_of,
    fields,
    long_branches,
    object_at,
    path_of,
    readings,
    root,
    value_text,
)
from onnx_workbench.model.io.reader.payloads import JoinedPieces, Payload
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.reader.source import BytesSource
from onnx_workbench.model.ir.graph import Graph, Node, Value
from tests.model import builders


def test_every_field_has_its_place():
    data = builders.proto(builders.CHAIN).SerializeToString()
    contents = JoinedPieces([data])
    for field in fields(contents, root(contents)):
        assert data[field.start : field.end]
        if field.name == "graph":
            assert onnx.GraphProto.FromString(data[field.content : field.end]).name == "chain"
            names = [f.name for f in fields(contents, field)]
            assert names.count("node") == 4
    assert next(f.value for f in fields(contents, root(contents)) if f.name == "ir_version") == 10


def test_pieces_read_as_one():
    data = bytes(range(200))
    contents = JoinedPieces([data[:50], Payload(BytesSource(b"xx" + data[50:120]), 2, 70), data[120:]])
    assert contents.size == 200
    for start, length in ((0, 200), (45, 10), (119, 2), (190, 50), (50, 70)):
        assert contents.read(start, length) == data[start : start + length]


def test_an_edited_model_shows_what_would_be_saved():
    document = builders.document()
    builders.one_edit(document, nodes.rename_node, builders.node(document, "first"), "renamed")
    contents = contents_of(document.model)
    model = load(contents.read(0, contents.size))
    assert builders.node(model, "renamed").op_type == "Mul"


def test_unknown_fields_are_shown_with_their_readings():
    contents = JoinedPieces([b"\xf8\x07\x03" + b"\xfa\x07\x05hello" + b"\xfd\x07\x00\x00\x80\x3f"])
    number, text, real = fields(contents, root(contents))
    assert dict(readings(contents, number)) == {"unsigned": "3", "signed": "3", "zigzag": "-2"}
    assert dict(readings(contents, text))["text"] == "hello"
    assert dict(readings(contents, real))["float"] == "1"


def test_damage_is_shown_where_it_is():
    data = builders.proto(builders.CHAIN).SerializeToString()
    contents = JoinedPieces([data[:-3]])
    (damaged,) = [f for f in fields(contents, root(contents)) if f.problem]
    assert "remain" in damaged.problem
    assert damaged.end == len(data) - 3


@given(st.binary(max_size=200))
def test_any_bytes_can_be_looked_at(data):
    contents = JoinedPieces([data])
    pending = [root(contents)]
    seen = 0
    while pending and seen < 2000:
        for field in fields(contents, pending.pop()):
            seen += 1
            value_text(contents, field)
            readings(contents, field)
            assert field.start < field.end <= len(data) or field.problem
            if field.message is not None:
                pending.append(field)


def test_paths_lead_to_objects_and_back():
    model = builders.model(builders.BRANCHES)
    for graph in model.graphs():
        for target in (graph, *graph.nodes, *graph.inputs):
            path = path_of(target)
            if path is None or (path[-1][0] == "node" and isinstance(target, Value)):
                continue
            found, _ = object_at(model, path)
            if isinstance(target, Graph) and found is not target:
                assert target is found.body  # a function stands for its body
            else:
                assert found is target
    assert path_of(model) == ()


def test_paths_and_the_file_agree():
    document = builders.document(builders.BRANCHES)
    contents = contents_of(document.model)
    names = []

    def walk(parent, path):
        for field in fields(contents, parent):
            below = (*path, (field.name, field.index))
            if field.name == "op_type":
                target, _ = object_at(document.model, below)
                assert isinstance(target, Node)
                assert target.op_type == value_text(contents, field)
                names.append(target.op_type)
            if field.message is not None:
                walk(field, below)

    walk(root(contents), ())
    assert sorted(names) == sorted(n.op_type for g in document.model.graphs() for n in g.nodes)


RUNS = st.lists(
    st.tuples(st.sampled_from([1, 5, 13]), st.sampled_from([1, 3, 999, 1000, 1001, 1499, 1700])), max_size=6
)


@pytest.mark.long
@given(RUNS)
def test_stretches_hold_every_field_once_and_in_order(runs):
    contents = JoinedPieces([b"".join(bytes([number << 3 | 2, 0]) * count for number, count in runs)])
    graph = root(contents, "GraphProto")
    report, singly = [], 0
    for entry in branch(contents, graph):
        if isinstance(entry, RawStretch):
            inside = [*fields(contents, graph, entry)]
            assert (inside[0], inside[-1], len(inside)) == (entry.first, entry.last, entry.count)
            assert all(entry.holds(field.key) for field in inside)
            report += inside
            singly = 0
        else:
            singly = singly + 1 if report and report[-1].number == entry.number else 1
            assert singly <= 1000
            report.append(entry)
    assert report == [*fields(contents, graph)]


def test_branches_in_stretches_are_found_in_the_graphs_of_a_model():
    wide = onnx.GraphProto(name="wide", node=[onnx.NodeProto(op_type="Relu")] * 1200)
    model = onnx.ModelProto(graph=wide, functions=[onnx.FunctionProto(name="f")])
    contents = JoinedPieces([model.SerializeToString()])
    graph = next(field for field in fields(contents, root(contents)) if field.name == "graph")
    assert long_branches(contents) == {graph.content: [*branch(contents, graph)]}
