"""Device configurations: names that nodes follow, shardings that fit, and all of it taken back and kept in a file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onnx_workbench.model.checks.devices import check_devices_of
from onnx_workbench.model.edits import copy_paste, devices, interface, nodes, properties
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.devices import (
    DeviceConfiguration,
    NodeDeviceConfiguration,
    ShardedDimension,
    ShardingSpec,
)
from tests.model import builders

SPEC = ShardingSpec("a", (0, -1), ((-1, (1, 2)),), (ShardedDimension(0, (("N", 2),)),))


@pytest.fixture
def document() -> Document:
    document = builders.document()
    with document.edit("Devices") as edit:
        properties.set_configurations(edit, (DeviceConfiguration("three", 3), DeviceConfiguration("two", 2)))
        parts = (NodeDeviceConfiguration("three"), NodeDeviceConfiguration("two", pipeline_stage=1))
        nodes.set_device_configurations(edit, builders.node(document, "first"), parts)
    return document


def sharding(document: Document) -> tuple[ShardingSpec, ...]:
    return builders.node(document, "first").device_configurations[0].sharding


def put(document: Document, *specs: ShardingSpec) -> None:
    node = builders.node(document, "first")
    first, *others = node.device_configurations
    parts = (replace(first, sharding=specs), *others)
    builders.one_edit(document, nodes.set_device_configurations, node, parts)


def test_a_sharding_is_set_saved_and_taken_back(document):
    before = to_bytes(document.model)
    put(document, SPEC)
    put(document, SPEC, ShardingSpec("x", (2,)))
    again = load(to_bytes(document.model))
    assert builders.node(again, "first").device_configurations[0].sharding == (SPEC, ShardingSpec("x", (2,)))
    put(document, ShardingSpec("x", (2,)))
    assert [spec.tensor_name for spec in sharding(document)] == ["x"]
    for _ in range(3):
        document.undo()
    assert to_bytes(document.model) == before


def test_nodes_follow_the_name_of_a_configuration(document):
    three, _ = document.model.configurations
    builders.one_edit(document, devices.rename_configuration, three, "trio")
    assert [c.name for c in document.model.configurations] == ["trio", "two"]
    node = builders.node(document, "first")
    assert [c.configuration_id for c in node.device_configurations] == ["trio", "two"]
    for name in ("two", ""):
        with pytest.raises(ModelError), document.edit("Rename") as edit:
            devices.rename_configuration(edit, document.model.configurations[0], name)
    document.undo()
    assert [c.configuration_id for c in node.device_configurations] == ["three", "two"]


def test_removing_a_configuration_takes_the_nodes_parts_along(document):
    before = to_bytes(document.model)
    builders.one_edit(document, devices.remove_configuration, document.model.configurations[1])
    assert [c.configuration_id for c in builders.node(document, "first").device_configurations] == ["three"]
    document.undo()
    assert to_bytes(document.model) == before


@pytest.fixture
def spread(document):
    """What the node says of its input and its output."""
    put(document, *(ShardingSpec(name, (0, 1)) for name in ("x", "a")))
    return document


def names_of(node):
    return [spec.tensor_name for spec in node.device_configurations[0].sharding]


def test_a_copy_says_how_its_own_values_are_spread(spread):
    (copy,) = builders.one_edit(spread, nodes.duplicate, [builders.node(spread, "first")])
    assert names_of(copy) == ["x", copy.outputs[0].name]
    assert not list(check_devices_of(copy, spread.model))


def test_nodes_bring_the_device_configurations_they_take_part_in(spread):
    other = Document(load(to_bytes(builders.model(builders.CHAIN))))
    before = to_bytes(other.model)
    with spread.edit("Unused") as edit:
        properties.set_configurations(edit, (*spread.model.configurations, DeviceConfiguration("unused", 1)))
    with other.edit("Paste") as edit:
        (pasted,) = copy_paste.paste(edit, other.model.graph, copy_paste.copy([builders.node(spread, "first")]))
    assert [c.name for c in other.model.configurations] == ["three", "two"]
    assert not list(check_devices_of(pasted, other.model))
    other.undo()
    assert to_bytes(other.model) == before
    merged = builders.one_edit(other, copy_paste.merge, other.model.graph, spread.model, {"x": "y"})
    first = next(node for node in merged if node.device_configurations)
    assert names_of(first) == ["y", first.outputs[0].name]
    assert not list(check_devices_of(first, other.model))


def test_what_is_said_of_an_input_that_is_left_out_goes(spread):
    other = builders.document("""
        <ir_version: 11, opset_import: ["" : 21]> bare (float[2] p) => (float[2] q) { q = Abs (p) }
    """)
    with other.edit("Paste") as edit:
        (pasted,) = copy_paste.paste(edit, other.model.graph, copy_paste.copy([builders.node(spread, "first")]))
    assert names_of(pasted) == [pasted.outputs[0].name]


def test_shardings_follow_an_output_that_gives_its_name_away(document):
    graph, last = document.model.graph, list(document.model.graph.nodes)[-1]
    value = last.outputs[0]
    other = next(v for v in last.inputs if v is not None and v.producer is not None)
    maker = other.producer
    with document.edit("Spread") as edit:
        for node, spread in ((last, value), (maker, other)):
            spec = ShardingSpec(spread.name, (0, 1))
            nodes.set_device_configurations(edit, node, (NodeDeviceConfiguration("three", (spec,)),))
    before = to_bytes(document.model)
    edits = {
        "insert": lambda edit: nodes.insert_on_edge(edit, value, "Relu"),
        "redirect": lambda edit: interface.redirect_output(edit, graph, 0, other),
        "bridge": lambda edit: nodes.delete_and_bridge(edit, [last]),
    }
    for title, change in edits.items():
        with document.edit(title) as edit:
            change(edit)
        assert not [p for node in graph.nodes for p in check_devices_of(node, document.model)], title
        document.undo()
        assert to_bytes(document.model) == before
