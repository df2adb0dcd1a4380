"""Device configurations of the model, which nodes refer to by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onnx_workbench.model.edits.properties import set_configurations
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.devices import DeviceConfiguration
from onnx_workbench.model.ir.graph import Model, Node


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
    for graph in model.graphs():
        for node in graph.nodes:
            if any(c.configuration_id == name for c in node.device_configurations):
                yield node
