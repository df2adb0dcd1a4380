"""How a model is spread over devices: sets of devices, and each node's part in them.

Source: onnx.proto, ``DeviceConfigurationProto`` and ``NodeDeviceConfigurationProto``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ShardedDimension:
    """ShardedDimProto: how one axis is cut; each part is (dimension value or symbol or None, number of shards)."""

    axis: int
    shards: tuple[tuple[int | str | None, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ShardingSpec:
    """ShardingSpecProto: how one input or output of a node is spread over devices."""

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
