"""Device configurations: names that nodes follow, shardings that fit, and all of it taken back and kept in a file."""

from __future__ import annotations

import pytest

from model.devices import DeviceConfiguration, NodeDeviceConfiguration, ShardedDimension, ShardingSpec
from model.document import Document
from model.edits import devices, nodes, properties
from model.errors import ModelError
from model.io.read import load
from model.io.save import to_bytes
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


def put(document: Document, spec: ShardingSpec | None, place: int = 0) -> None:
    with document.edit("Shard") as edit:
        devices.put_sharding(edit, builders.node(document, "first"), 0, place, spec)


def test_a_sharding_is_set_saved_and_taken_back(document):
    before = to_bytes(document.model)
    put(document, SPEC)
    put(document, ShardingSpec("x", (2,)), place=1)
    again = load(to_bytes(document.model))
    assert builders.node(again, "first").device_configurations[0].sharding == (SPEC, ShardingSpec("x", (2,)))
    put(document, None)
    assert [spec.tensor_name for spec in sharding(document)] == ["x"]
    for _ in range(3):
        document.undo()
    assert to_bytes(document.model) == before


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (ShardingSpec("c"), "no input or output 'c'"),
        (ShardingSpec("a", (3,)), "no device 3"),
        (ShardingSpec("a", (-1,)), "no device -1"),
        (ShardingSpec("a", (-1,), ((-1, (7,)),)), "no device 7"),
        (ShardingSpec("x", dimensions=(ShardedDimension(2, ()),)), "no axis 2"),
        (ShardingSpec("x", dimensions=(ShardedDimension(-3, ()),)), "no axis -3"),
    ],
)
def test_what_does_not_fit_is_refused(document, spec, said):
    with pytest.raises(ModelError) as refused:
        put(document, spec)
    assert said in refused.value.title
    assert sharding(document) == ()


def test_a_value_is_spread_once(document):
    put(document, SPEC)
    with pytest.raises(ModelError, match="given already"):
        put(document, ShardingSpec("a", (2,)), place=1)


def test_nodes_follow_the_name_of_a_configuration(document):
    three, _ = document.model.configurations
    with document.edit("Rename") as edit:
        devices.rename_configuration(edit, three, "trio")
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
    with document.edit("Remove") as edit:
        devices.remove_configuration(edit, document.model.configurations[1])
    assert [c.configuration_id for c in builders.node(document, "first").device_configurations] == ["three"]
    document.undo()
    assert to_bytes(document.model) == before
