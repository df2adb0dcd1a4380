"""Rows for the device configurations of a model and for a node's shardings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from onnx_workbench.model.edits import devices, nodes, properties
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration, ShardingSpec
from onnx_workbench.model.ir.graph import Model, Node
from onnx_workbench.model.text import sharding
from onnx_workbench.model.text.attributes import parse_int
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.canvas.scene.node_text import cut_text
from onnx_workbench.viewer.inspector.common import act, add_row, name_of, one_line, section, text_row
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction, Suggestion
from onnx_workbench.viewer.run.workspace import Workspace

_STAGES = range(-(1 << 31), 1 << 31)  # pipeline_stage has 32 bits


def devices_section(workspace: Workspace, node: Node) -> list[PropertyRow]:
    """Return the section of a node's device configurations; None where the model has none."""
    known = workspace.model.configurations
    mine = node.device_configurations
    if not known and not mine:
        return []

    def rows() -> Sequence[PropertyRow]:
        return [*(_node_row(workspace, node, i) for i in range(len(mine))), _add_to_node(workspace, node)]

    return [section("devices", "Devices", len(mine), rows, common=False)]


def _node_row(workspace: Workspace, node: Node, index: int) -> PropertyRow:
    configuration = node.device_configurations[index]
    name = configuration.configuration_id
    stage = configuration.pipeline_stage

    def set_stage(edit: Transaction, text: str) -> None:
        number = parse_int(text) if text.strip() else None
        if number is not None and number not in _STAGES:
            raise ModelError(f"{number} cannot be a pipeline stage", "Stages have 32 bits.", node)
        devices.set_device_configuration(edit, node, index, replace(configuration, pipeline_stage=number))

    def set_name(edit: Transaction, text: str) -> None:
        changed = replace(configuration, configuration_id=text.strip())
        devices.set_device_configuration(edit, node, index, changed)

    row = PropertyRow(f"device {name}", display(name, 80), "no stage" if stage is None else f"stage {stage}")
    row.field = PropertyField(
        f"Set pipeline stage of {name_of(node)}",
        lambda: "" if stage is None else str(stage),
        set_stage,
        hint="pipeline stage; empty for none",
    )
    row.label_field = PropertyField(
        f"Set device configuration of {name_of(node)}", lambda: name, set_name, choices=partial(_choices, workspace)
    )
    row.note = plural(len(configuration.sharding), "sharded value") if configuration.sharding else ""
    row.expanded = bool(configuration.sharding) or stage is None  # placeholder for a new one
    row.children = lambda: [
        *(_sharding_row(workspace, node, index, i) for i in range(len(configuration.sharding))),
        _add_sharding(node, index),
    ]
    row.actions = (
        _removing(workspace, node, "devices", lambda edit: devices.set_device_configuration(edit, node, index, None)),
    )
    return row


def _removing(workspace: Workspace, node: Node, what: str, change: Callable[[Transaction], object]) -> RowAction:
    return RowAction("Remove", act(workspace, f"Remove {what} of {name_of(node)}", change), "delete", "remove")


def _choices(workspace: Workspace) -> tuple[Suggestion, ...]:
    return tuple(Suggestion(c.name, plural(c.num_devices, "device")) for c in workspace.model.configurations)


def _add_to_node(workspace: Workspace, node: Node) -> PropertyRow:
    def add(edit: Transaction, text: str) -> None:
        configuration = NodeDeviceConfiguration(text.strip())
        nodes.set_device_configurations(edit, node, (*node.device_configurations, configuration))

    title, hint = f"Add devices to {name_of(node)}", "name of a configuration"
    field = PropertyField(title, str, add, choices=partial(_choices, workspace), hint=hint)
    return add_row("Add devices", field)


# -- sharding -------------------------------------------------------------------------------------------------


def _sharding_row(workspace: Workspace, node: Node, index: int, position: int) -> PropertyRow:
    """Return the row of one value's sharding: devices, device groups, and sharded axes."""
    spec = node.device_configurations[index].sharding[position]

    def apply(edit: Transaction, changed: ShardingSpec | None) -> None:
        devices.set_sharding(edit, node, index, position, changed, workspace.types.type_of)

    axes = sharding.sharded_dimensions_source(spec.dimensions)
    where = f"devices {sharding.devices_source(spec.devices)}" if spec.devices else ""
    cut = cut_text(spec) if spec.dimensions or not where else ""
    text = f"{cut}, {where}" if cut and where else cut or f"on {where}"
    row = PropertyRow(f"sharding {position}", display(spec.tensor_name, 80), display(text, 300))
    row.tip = row.text
    row.expanded = True  # placeholder for a new one
    row.label_field = _value_field(
        node,
        f"Set sharded value of {name_of(node)}",
        spec.tensor_name,
        lambda edit, text: apply(edit, replace(spec, tensor_name=text)),
    )
    row.children = [
        _part(node, spec, "devices", "Devices", sharding.devices_source(spec.devices), _set_devices(apply, spec)),
        _part(node, spec, "groups", "Groups", sharding.groups_source(spec.device_groups), _set_groups(apply, spec)),
        _part(node, spec, "axes", "Axes", axes, _set_axes(apply, spec)),
    ]
    row.actions = (
        _removing(workspace, node, f"sharding of {one_line(spec.tensor_name, 40)}", lambda edit: apply(edit, None)),
    )
    return row


Put = Callable[[Transaction, ShardingSpec], object]
Apply = Callable[[Transaction, str], object]


def _set_devices(put: Put, spec: ShardingSpec) -> Apply:
    return lambda edit, text: put(edit, replace(spec, devices=sharding.parse_devices(text)))


def _set_groups(put: Put, spec: ShardingSpec) -> Apply:
    return lambda edit, text: put(edit, replace(spec, device_groups=sharding.parse_groups(text)))


def _set_axes(put: Put, spec: ShardingSpec) -> Apply:
    return lambda edit, text: put(edit, replace(spec, dimensions=sharding.parse_sharded_dimensions(text)))


_HINTS = {
    "devices": ("0, 1, 2", "Devices over which the value is sharded or replicated, or numbers of groups."),
    "groups": ("-1 = 0, 1; -2 = 2, 3", "Devices of each group number above."),
    "axes": ("0: N in 2; 1: 1024 in 4", "Number of shards of each axis."),
}


def _part(node: Node, spec: ShardingSpec, key: str, label: str, text: str, apply: Apply) -> PropertyRow:
    hint, tip = _HINTS[key]
    title = f"Set {label.lower()} of {one_line(spec.tensor_name, 40)} at {name_of(node)}"
    row = text_row(
        key, label, text, PropertyField(title, lambda: text, apply, mono=True, hint=hint), tip=tip, mono=True
    )
    if not text:
        row.text, row.style, row.mono = "none", "muted", False
    return row


def _value_field(node: Node, title: str, source: str, apply: Apply) -> PropertyField:
    """Return a field for one of the values of a node."""

    def choices() -> Sequence[Suggestion]:
        names = dict.fromkeys(v.name for v in (*node.inputs, *node.outputs) if v is not None)
        return [*map(Suggestion, names)]

    return PropertyField(title, lambda: source, apply, choices=choices, hint="name of an input or output")


def _add_sharding(node: Node, index: int) -> PropertyRow:
    def add(edit: Transaction, text: str) -> None:
        position = len(node.device_configurations[index].sharding)
        devices.set_sharding(edit, node, index, position, ShardingSpec(text))

    return add_row("Add value", _value_field(node, f"Shard a value of {name_of(node)}", "", add))


# -- the model's ----------------------------------------------------------------------------------------------


def configurations_section(workspace: Workspace, model: Model) -> PropertyRow:
    """Return the section of the model's device configurations."""
    configurations = model.configurations

    def rows() -> Sequence[PropertyRow]:
        return [*(_model_row(workspace, model, i) for i in range(len(configurations))), _add_to_model(model)]

    return section("configurations", "Device configurations", len(configurations), rows)


def _model_row(workspace: Workspace, model: Model, index: int) -> PropertyRow:
    configuration = model.configurations[index]
    name = configuration.name

    def set_devices(edit: Transaction, text: str) -> None:
        have = model.configurations
        properties.set_configurations(edit, (*have[:index], _parse(configuration, text), *have[index + 1 :]))

    row = PropertyRow(f"configuration {index}", display(name, 80), display(_text(configuration), 300))
    row.note = plural(configuration.num_devices, "device") if configuration.devices else ""
    row.tip = "Number of devices, or their names."
    row.field = PropertyField(f"Set devices of {display(name, 60)}", lambda: _text(configuration), set_devices)
    row.label_field = PropertyField(
        f"Rename {display(name, 60)}",
        lambda: name,
        lambda edit, text: devices.rename_configuration(edit, configuration, text.strip()),
    )
    removing = act(
        workspace, f"Remove {display(name, 60)}", lambda edit: devices.remove_configuration(edit, configuration)
    )
    row.actions = (RowAction("Remove", removing, "delete", "remove"),)
    return row


def _text(configuration: DeviceConfiguration) -> str:
    return ", ".join(configuration.devices) if configuration.devices else str(configuration.num_devices)


def _parse(before: DeviceConfiguration, text: str) -> DeviceConfiguration:
    """Parse a number of devices, or their names."""
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(parts) == 1 and parts[0].lstrip("-").isdecimal():
        number = parse_int(parts[0])
        if not 0 < number < 1 << 31:
            raise ModelError(f"{number} devices are not possible", "Write a number of 1 or more.")
        return replace(before, num_devices=number, devices=())
    if not parts:
        raise ModelError("A configuration needs devices", "Write how many there are, or their names.")
    return replace(before, num_devices=len(parts), devices=parts)


def _add_to_model(model: Model) -> PropertyRow:
    def add(edit: Transaction, text: str) -> None:
        name, equals, written = text.partition("=")
        if not name.strip():
            raise ModelError("A configuration needs a name", "Write name = cpu:0, cpu:1 or name = 2.")
        made = _parse(DeviceConfiguration(name.strip(), 1), written if equals else "1")
        properties.set_configurations(edit, (*model.configurations, made))

    return add_row("Add", PropertyField("Add device configuration", str, add, hint="name = devices"))
