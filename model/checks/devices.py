"""Rules about the model's device configurations and the nodes' references to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from onnx_workbench.model.analysis.value_types import dims_of
from onnx_workbench.model.checks.problem import Fix, Problem, error
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration, ShardingSpec, with_names
from onnx_workbench.model.ir.graph import Model, Node


def check_configurations(model: Model) -> Iterator[Problem]:
    """Check the model's device configurations."""
    seen: set[str] = set()
    for configuration in model.configurations:
        name, rule = configuration.name, "device-configuration"
        if not name:
            yield error(rule, "A device configuration has no name", model, "Every configuration needs one.")
        elif name in seen:
            yield error(rule, f"Two device configurations are named {name}", model, "Their names must differ.")
        seen.add(name)
        if configuration.num_devices < 1:
            yield error(rule, f"{name} has {configuration.num_devices} devices", model, "It must have one or more.")
        elif configuration.devices and len(configuration.devices) != configuration.num_devices:
            found = len(configuration.devices)
            yield error(
                rule,
                f"{name} has {configuration.num_devices} devices and names {found}",
                model,
                "It must name all of them or none.",
                Fix(f"Set num_devices of {name} to {found}", partial(_count, configuration=configuration)),
            )


def _count(edit: Transaction, configuration: DeviceConfiguration) -> None:
    mended = replace(configuration, num_devices=len(configuration.devices))
    edit.do(
        SetField(
            edit.model,
            "configurations",
            tuple(mended if c is configuration else c for c in edit.model.configurations),
        )
    )


def check_devices_of(node: Node, model: Model) -> Iterator[Problem]:
    """Check a node's device configurations and shardings. Decodes nothing for a node without any."""
    if not node.is_spread:
        return
    known = {c.name: c for c in model.configurations}
    for used in node.device_configurations:
        if used.configuration_id not in known:
            yield error(
                "device-configuration",
                f"{node.title} names device configuration {used.configuration_id!r}",
                node,
                f"The model has: {', '.join(sorted(known)) or 'none'}.",
                _without(node, used),
            )
        for spec in used.sharding:
            yield from _check_sharding(node, spec)
            if used.configuration_id in known:
                yield from _check_devices(node, spec, known[used.configuration_id])


def _remove_sharding(node: Node, name: str, edit: Transaction) -> None:
    edit.do(SetField(node, "device_configurations", with_names(node.device_configurations, {name: None})))


def _without(node: Node, used: NodeDeviceConfiguration) -> Fix:
    def apply(edit: Transaction) -> None:
        kept = tuple(c for c in node.device_configurations if c is not used)
        edit.do(SetField(node, "device_configurations", kept))

    return Fix(f"Remove {used.configuration_id or 'it'} from {node.title}", apply)


def _check_devices(node: Node, spec: ShardingSpec, configuration: DeviceConfiguration) -> Iterator[Problem]:
    groups = dict(spec.device_groups)
    used = {device for device in spec.devices if device not in groups}.union(*groups.values())
    if missing := sorted(device for device in used if not 0 <= device < configuration.num_devices):
        yield error(
            "sharding",
            f"{node.title} puts {spec.tensor_name} on device {missing[0]} of {configuration.name}",
            node,
            f"Its devices are 0 to {configuration.num_devices - 1}; other numbers are those of groups.",
        )


def _check_sharding(node: Node, spec: ShardingSpec) -> Iterator[Problem]:
    names = {value.name for value in (*node.inputs, *node.outputs) if value is not None}
    if spec.tensor_name not in names:
        yield error(
            "sharding",
            f"{node.title} declares how {spec.tensor_name!r} is sharded",
            node,
            f"Only its inputs and outputs can be: {', '.join(sorted(names)) or 'it has none'}.",
            Fix(
                f"Remove the sharding of {spec.tensor_name} there",
                partial(_remove_sharding, node, spec.tensor_name),
            ),
        )
    dims = [dims_of(value) for value in (*node.inputs, *node.outputs) if value and value.name == spec.tensor_name]
    rank = len(dims[0]) if dims and dims[0] is not None else None
    for dimension in spec.dimensions:
        if rank is not None and not -rank <= dimension.axis < rank:
            yield error(
                "sharding",
                f"{node.title} splits axis {dimension.axis} of {spec.tensor_name}",
                node,
                f"It has {rank} dimensions.",
            )
        for _, shards in dimension.shards:
            if shards < 1:
                yield error(
                    "sharding",
                    f"{node.title} splits axis {dimension.axis} of {spec.tensor_name} into {shards} parts",
                    node,
                    "It must be split into 1 or more.",
                )
