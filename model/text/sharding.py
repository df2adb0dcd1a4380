"""Text form of device shardings: ``0, 1``, ``-1 = 0, 1; -2 = 2, 3``, ``0: N in 2``."""

from __future__ import annotations

import json
import re

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.devices import ShardedDimension
from onnx_workbench.model.text.attributes import parse_int

Groups = tuple[tuple[int, tuple[int, ...]], ...]

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_AXIS = re.compile(r"\s*([+-]?\w+)\s*:\s*")
_SHARD = re.compile(rf"\s*({_QUOTED}|[^\s,;:\"]+)\s+in\s+([^\s,;:]+)\s*")
_PLAIN = re.compile(r"[^\s,;:\"?\d+-][^\s,;:\"]*")


def devices_source(devices: tuple[int, ...]) -> str:
    """Format device numbers so that `parse_devices` reads them back."""
    return ", ".join(map(str, devices))


def parse_devices(text: str) -> tuple[int, ...]:
    """Parse comma-separated numbers of devices or device groups."""
    return tuple(parse_int(part) for part in text.split(",") if part.strip())


def groups_source(groups: Groups) -> str:
    """Format device groups so that `parse_groups` reads them back."""
    return "; ".join(f"{number} = {devices_source(devices)}" for number, devices in groups)


def parse_groups(text: str) -> Groups:
    """Parse device groups: ``number = device, device; number = …``."""
    found: dict[int, tuple[int, ...]] = {}
    for part in filter(str.strip, text.split(";")):
        number, equals, devices = part.partition("=")
        if not equals:
            raise ModelError(
                f"{part.strip()} is not a device group", "Write number = device, device; number = device …"
            )
        group = parse_int(number)
        if group in found:
            raise ModelError(f"Group {group} is given twice", "Write its devices in one place.")
        found[group] = parse_devices(devices)
    return tuple(found.items())


def sharded_dimensions_source(dimensions: tuple[ShardedDimension, ...]) -> str:
    """Format sharded axes so that `parse_sharded_dimensions` reads them back."""
    return "; ".join(
        f"{dimension.axis}: {', '.join(f'{_size_source(size)} in {count}' for size, count in dimension.shards)}".strip()
        for dimension in dimensions
    )


def _size_source(size: int | str | None) -> str:
    if size is None:
        return "?"
    if isinstance(size, int):
        return str(size)
    return size if _PLAIN.fullmatch(size) else json.dumps(size)


def parse_sharded_dimensions(text: str) -> tuple[ShardedDimension, ...]:
    """Parse how axes are sharded: ``axis: size in shards``, several parts by commas, several axes by semicolons.

    A size is a number, a symbol (in quotes where it would be misread) or ``?``.
    """
    found: list[ShardedDimension] = []
    position = 0
    while text[position:].strip():
        axis = _AXIS.match(text, position)
        if axis is None:
            raise _misread(text[position:])
        shards, position = _shards(text, axis.end())
        found.append(ShardedDimension(parse_int(axis[1]), shards))
    axes = [dimension.axis for dimension in found]
    twice = next((axis for axis in axes if axes.count(axis) > 1), None)
    if twice is not None:
        raise ModelError(f"Axis {twice} is given twice", "Write all its parts in one place, separated by commas.")
    return tuple(found)


def _shards(text: str, position: int) -> tuple[tuple[tuple[int | str | None, int], ...], int]:
    """Parse the parts of one axis; also returns the position where the next axis begins."""
    found: list[tuple[int | str | None, int]] = []
    while position < len(text) and text[position] != ";":
        match = _SHARD.match(text, position)
        if match is None:
            raise _misread(text[position:])
        count = parse_int(match[2])
        if count < 1:
            raise ModelError(f"{count} shards are not possible", "An axis has 1 or more.")
        found.append((_size(match[1]), count))
        position = match.end()
        if text[position : position + 1] == ",":
            position += 1
        elif text[position : position + 1] not in ("", ";"):
            raise _misread(text[position:])
    return tuple(found), position + 1


def _size(text: str) -> int | str | None:
    if text == "?":
        return None
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except json.JSONDecodeError:
            raise _misread(text) from None
    return text if _PLAIN.fullmatch(text) else parse_int(text)


def _misread(text: str) -> ModelError:
    shown = text.strip()
    return ModelError(
        f"{shown[:40]!r} is not understood", "Write axis: size in shards, for example 0: N in 2; 1: 64 in 4."
    )
