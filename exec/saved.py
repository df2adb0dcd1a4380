"""A run in an .npz file: every value, those inside functions and bodies too, and what is needed to do it again.

Each array is there for numpy alone. A value of the graph has its name as the key; one inside has the calls of
functions and the bodies around it before its name, outermost first, as in ``block > loop.body > scores``. Of a body
it is the value of the last turn. What numpy has no type for is stored as `exec.archive.Archive.add` says.

``__run__`` is a text in JSON that tells them apart whatever they are called::

    {"seed": 0, "inputs": ["x"], "values": [[["x"], {"key": "x"}], [["block", "scores"], {"key": "block > scores"}]]}

One array may be the value of several places: what a call gives is what the function in it gives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from exec.archive import Stored, stored_value, writing
from exec.context import RuntimeValue
from exec.inputs import read_npz
from exec.inspection.compare import value_keys
from exec.plan import ValueKey
from exec.results import RunResult
from model.errors import ModelError

#: The key that is no value; no exporter names values like this.
_RUN = "__run__"

#: Where a value is: the calls and bodies around it, outermost first, and its name.
Address = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SavedRun:
    """What the file of a run holds. `is_run`: it was saved as one, so that addresses tell where values are."""

    inputs: dict[str, RuntimeValue]
    seed: int
    values: dict[Address, RuntimeValue] = field(repr=False)
    is_run: bool


def save_run(result: RunResult, path: str, inputs: Sequence[str], addresses: Mapping[ValueKey, Address]) -> int:
    """Write every value that was computed or given, and which of them are inputs; how many there are.

    What has no address, such as constants, which are in the model, is left out, and so is what calls of functions
    pass on of it. OSError when the file cannot be written.
    """
    slots = result.layout.slots
    constant = {slot for key, slot in slots.items() if key not in addresses}
    held: dict[object, Stored] = {}  # by slot, or by key where there is none
    values: list[tuple[Address, Stored]] = []
    with writing(Path(path)) as archive:
        for key in _keys(result):
            place = slots.get(key, key)
            if place in constant or key not in addresses or result.info(key) is None:
                continue
            if place not in held:
                held[place] = archive.add(" > ".join(addresses[key]), result.value(key))
            values.append((addresses[key], held[place]))
        text = json.dumps({"seed": result.seed, "inputs": list(inputs), "values": values})
        archive.add(_RUN, np.array(text, object))
    return len(held)


def _keys(result: RunResult) -> Iterator[ValueKey]:
    """Every value of a run: in run order by its name outside, then by its others inside calls, then in bodies."""
    first = dict.fromkeys(value_keys(result))
    yield from first
    yield from (key for key in result.layout.slots if key not in first)
    inside = ((path, value) for path, values in result.bodies.items() for value in values)
    yield from (key for key in inside if key not in result.layout.slots)


def load_run(path: Path) -> SavedRun:
    """A saved run, or any .npz file as one without inputs. ModelError when it cannot be read."""
    arrays = read_npz(path)
    told = arrays.pop(_RUN, None)
    if told is None:
        return SavedRun({}, 0, {(name,): array for name, array in arrays.items()}, is_run=False)
    try:
        content = json.loads(str(told.item()))
        values = {_address(address): stored_value(arrays, stored) for address, stored in content["values"]}
        names, seed = [str(name) for name in content["inputs"]], int(content["seed"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        detail = f"{_RUN} in it does not tell of a run: {error}"
        raise ModelError(f"{path.name} cannot be read", detail, str(path)) from None
    return SavedRun({name: values[name,] for name in names if (name,) in values}, seed, values, is_run=True)


def _address(content: Any) -> Address:
    return tuple([str(part) for part in content])
