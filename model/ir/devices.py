"""Device configurations of a model, and the sharding of nodes over devices.

Source: onnx.proto, ``DeviceConfigurationProto`` and ``NodeDeviceConfigurationProto``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class ShardedDimension:
    """ShardedDimProto: the shards of one axis; each part is (dimension value or symbol or None, number of shards)."""

    axis: int
    shards: tuple[tuple[int | str | None, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ShardingSpec:
    """ShardingSpecProto: the sharding of one input or output of a node."""

    tensor_name: str
    devices: tuple[int, ...] = ()
    device_groups: tuple[tuple[int, tuple[int, ...]], ...] = ()
    dimensions: tuple[ShardedDimension, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeDeviceConfiguration:
    """NodeDeviceConfigurationProto: a node's part in one of the model's device configurations."""

    configuration_id: str
    sharding: tuple[ShardingSpec, ...] = ()
    pipeline_stage: int | None = None
    source: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DeviceConfiguration:
    """DeviceConfigurationProto: a named set of devices the model can be spread over."""

    name: str
    num_devices: int
    devices: tuple[str, ...] = ()
    source: Any = field(default=None, compare=False, repr=False)


def with_names(
    configurations: tuple[NodeDeviceConfiguration, ...], names: Mapping[str, str | None]
) -> tuple[NodeDeviceConfiguration, ...]:
    """Return a node's device configurations with inputs and outputs renamed; None removes a sharding."""
    return tuple(_with_names(configuration, names) for configuration in configurations)


def _with_names(configuration: NodeDeviceConfiguration, names: Mapping[str, str | None]) -> NodeDeviceConfiguration:
    called = [(spec, names.get(spec.tensor_name, spec.tensor_name)) for spec in configuration.sharding]
    if all(spec.tensor_name == name for spec, name in called):
        return configuration
    specs = (
        spec if spec.tensor_name == name else replace(spec, tensor_name=name)
        for spec, name in called
        if name is not None
    )
    return replace(configuration, sharding=tuple(specs))
