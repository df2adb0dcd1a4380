"""Device configurations of the model, and the sharding of a node's values over devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from onnx_workbench.model.edits.nodes import set_device_configurations
from onnx_workbench.model.edits.properties import set_configurations
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration, ShardingSpec
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.ir.types import TensorType, Type


def rename_configuration(edit: Transaction, configuration: DeviceConfiguration, name: str) -> None:
    """Rename a device configuration of the model and the references of all nodes to it."""
    if not name:
        raise ModelError("A device configuration needs a name", "The name is empty.", edit.model)
    old = configuration.name
    renamed = (replace(c, name=name) if c is configuration else c for c in edit.model.configurations)
    set_configurations(edit, tuple(renamed))
    for node in _parts_of(edit.model, old):
        mine = (
            replace(c, configuration_id=name) if c.configuration_id == old else c for c in node.device_configurations
        )
        edit.do(SetField(node, "device_configurations", tuple(mine)))


def remove_configuration(edit: Transaction, configuration: DeviceConfiguration) -> None:
    """Remove a device configuration from the model and from all nodes."""
    set_configurations(edit, tuple(c for c in edit.model.configurations if c is not configuration))
    if any(c.name == configuration.name for c in edit.model.configurations):
        return
    for node in _parts_of(edit.model, configuration.name):
        kept = tuple(c for c in node.device_configurations if c.configuration_id != configuration.name)
        edit.do(SetField(node, "device_configurations", kept))


def _parts_of(model: Model, name: str) -> Iterator[Node]:
    """Return the nodes that refer to a configuration."""
    for graph in model.graphs():
        for node in graph.nodes:
            if any(c.configuration_id == name for c in node.device_configurations):
                yield node


def set_device_configuration(
    edit: Transaction, node: Node, index: int, configuration: NodeDeviceConfiguration | None
) -> None:
    """Replace or (None) remove one of a node's device configurations."""
    mine = node.device_configurations
    middle = () if configuration is None else (configuration,)
    set_device_configurations(edit, node, (*mine[:index], *middle, *mine[index + 1 :]))


def set_sharding(
    edit: Transaction,
    node: Node,
    index: int,
    place: int,
    spec: ShardingSpec | None,
    type_of: Callable[[Value], Type | None] = lambda value: value.type,
) -> None:
    """Replace, add (`place` past the end) or (None) remove the sharding of one value in a node's configuration.

    ModelError for a value that is no input or output of the node, a duplicate, devices outside the configuration, and
    axes outside the value's rank; `type_of` may know inferred types.
    """
    configuration = node.device_configurations[index]
    others = (*configuration.sharding[:place], *configuration.sharding[place + 1 :])
    if spec is not None:
        if any(other.tensor_name == spec.tensor_name for other in others):
            raise ModelError(f"{spec.tensor_name} is already listed", "Edit it in its own row.", node)
        _check_value(node, spec, type_of)
        _check_devices(edit.model, node, configuration, spec)
    middle = () if spec is None else (spec,)
    sharding = (*configuration.sharding[:place], *middle, *configuration.sharding[place + 1 :])
    set_device_configuration(edit, node, index, replace(configuration, sharding=sharding))


def _check_value(node: Node, spec: ShardingSpec, type_of: Callable[[Value], Type | None]) -> None:
    values = {v.name: v for v in (*node.inputs, *node.outputs) if v is not None}
    value = values.get(spec.tensor_name)
    if value is None:
        raise ModelError(
            f"{node.title} has no input or output {spec.tensor_name!r}", f"It has: {', '.join(values)}.", node
        )
    kind = type_of(value)
    if not isinstance(kind, TensorType) or kind.shape is None:
        return
    rank = kind.shape.rank
    for dimension in spec.dimensions:
        if not -rank <= dimension.axis < rank:
            raise ModelError(f"{value.name} has no axis {dimension.axis}", f"Its shape is {kind.shape}.", node)


def _check_devices(model: Model, node: Node, configuration: NodeDeviceConfiguration, spec: ShardingSpec) -> None:
    groups = dict(spec.device_groups)
    known = next((c for c in model.configurations if c.name == configuration.configuration_id), None)
    if known is None:
        return
    single = (*(d for d in spec.devices if d not in groups), *(d for group in groups.values() for d in group))
    for device in single:
        if not 0 <= device < known.num_devices:
            have = f"Its devices are 0 to {known.num_devices - 1}; a group is given its devices first."
            raise ModelError(f"{known.name} has no device {device}", have, node)
