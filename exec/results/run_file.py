"""A run in an .npz file: every value, those inside functions and bodies too, and what is needed to repeat it.

Each array can be read with numpy alone. A value of the graph has its name as the key; one inside has the calls of
functions and the bodies around it before its name, outermost first, as in ``block > loop.body > scores``. Of a body
it is the value of the last iteration. `exec.results.npz_files.Archive.add` says how types unknown to numpy are stored.

``__run__`` is a JSON text that maps them to their addresses::

    {"seed": 0, "inputs": ["x"], "values": [[["x"], {"key": "x"}], [["block", "scores"], {"key": "block > scores"}]]}

One array may be the value of several places: what a call gives is what the function in it gives.

Costs of nodes are in arrays of the same length: ``__nodes__`` has for each the calls and bodies around it and the
name of its first output, as above, ``__states__`` a name of `State`, ``__seconds__``, ``__bytes__`` (of its outputs)
and ``__turns__`` (how often it ran, if it is in a body). ``__run__`` has their actual keys and
the addresses as ``"profile"``; older files do without.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onnx_workbench.exec.inputs.sources import read_npz
from onnx_workbench.exec.inspect.compare import value_keys
from onnx_workbench.exec.kernels.context import RuntimeValue
from onnx_workbench.exec.results.node_table import NO_NODES, STATES, NodeResult, NodeTable, State
from onnx_workbench.exec.results.npz_files import NpzArchive, Stored, stored_value, writing
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.model.errors import ModelError

#: The key that is no value; no exporter names values like this.
_RUN = "__run__"

_STATE_NAMES = np.array([state.name for state in STATES], object)

#: The largest seed that can be chosen in the program.
_MOST_SEED = 2**31 - 1

#: Where a value is: the calls and bodies around it, outermost first, and its name.
Address = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SavedRun:
    """Content of the file of a run. `is_run`: it was saved as one, with the addresses of its values.

    `nodes` are those that took something, without ids, and `places` the addresses of their first outputs; like
    `peak_bytes` they are missing in older files.
    """

    inputs: dict[str, RuntimeValue]
    seed: int
    values: dict[Address, RuntimeValue] = field(repr=False)
    is_run: bool
    nodes: NodeTable = field(default=NO_NODES, repr=False)
    places: Sequence[Address] = field(default=(), repr=False)
    peak_bytes: int = 0


def save_run(
    result: RunResult,
    path: str,
    inputs: Sequence[str],
    addresses: Mapping[ValueKey, Address],
    nodes: NodeTable,
    places: Sequence[Address],
) -> int:
    """Write every value that was computed or given, and which of them are inputs; how many there are.

    What has no address, such as constants, which are in the model, is left out, and so is what calls of functions
    pass on of it. Of `nodes`, whose first outputs have the addresses `places`, it is written what they took. OSError
    when the file cannot be written; where it is stopped, there is none.
    """
    slots = result.layout.slots
    constant = {slot for key, slot in slots.items() if key not in addresses}
    held: dict[object, Stored] = {}  # by slot, or by key where there is none
    values: list[tuple[Address, Stored]] = []
    keys = list(_keys(result))
    with writing(Path(path)) as archive:
        for key in result.asker.paced(keys, 1, of=len(keys)):
            index = slots.get(key, key)
            if index in constant or key not in addresses or result.info(key) is None:
                continue
            if index not in held:
                held[index] = archive.add(" > ".join(addresses[key]), result.value(key))
            values.append((addresses[key], held[index]))
        profile = _write_nodes(archive, nodes, places) | {"peak_bytes": result.peak_bytes}
        text = json.dumps({"seed": result.seed, "inputs": list(inputs), "values": values, "profile": profile})
        archive.add(_RUN, np.array(text, object))
    return len(held)


def _write_nodes(archive: NpzArchive, nodes: NodeTable, places: Sequence[Address]) -> dict[str, Any]:
    columns = {
        "nodes": np.array([" > ".join(address) for address in places], object),
        "states": _STATE_NAMES[nodes.states],
        "seconds": nodes.seconds,
        "bytes": nodes.nbytes,
        "turns": nodes.runs,
    }
    keys = {name: archive.add(f"__{name}__", column) for name, column in columns.items()}
    return {"addresses": places, "arrays": keys}


def _read_nodes(arrays: Mapping[str, Any], description: Mapping[str, Any]) -> tuple[NodeTable, list[Address]]:
    names = "states", "seconds", "bytes", "turns"
    states, *numbers = (stored_value(arrays, description["arrays"][name]) for name in names)
    if any(part.dtype.kind not in "fi" or not np.all(np.isfinite(part) & (part >= 0)) for part in numbers):
        msg = "what nodes took is no time, memory or count"
        raise ValueError(msg)
    places = [_address(address) for address in description["addresses"]]
    rows = [
        NodeResult(0, (), "", "", State[state], seconds, nbytes, runs=runs)
        for _, state, seconds, nbytes, runs in zip(
            places, states.tolist(), *(part.tolist() for part in numbers), strict=True
        )
    ]
    return NodeTable.of(rows), places


def _keys(result: RunResult) -> Iterator[ValueKey]:
    """Every value of a run: in run order by its name outside, then by its others inside calls, then in bodies."""
    first = dict.fromkeys(value_keys(result))
    yield from first
    yield from (key for key in result.layout.slots if key not in first)
    inside = ((path, value) for path, values in result.bodies.items() for value in values)
    yield from (key for key in inside if key not in result.layout.slots)


def load_run(path: Path) -> SavedRun:
    """Return a saved run, or any .npz file as one without inputs. ModelError when it cannot be read."""
    arrays = read_npz(path)
    description = arrays.pop(_RUN, None)
    if description is None:
        return SavedRun({}, 0, {(name,): array for name, array in arrays.items()}, is_run=False)
    try:
        content = json.loads(str(description.item()))
        values = {_address(address): stored_value(arrays, stored) for address, stored in content["values"]}
        names, seed = [str(name) for name in content["inputs"]], _seed(content["seed"])
        profile = content.get("profile")
        nodes, places = (NO_NODES, []) if profile is None else _read_nodes(arrays, profile)
        peak = 0 if profile is None else int(profile["peak_bytes"])
    except KeyError as error:
        raise ModelError(f"{path.name} cannot be read", f"{error} is missing in it", str(path)) from None
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        detail = f"{_RUN} in it does not tell of a run: {error}"
        raise ModelError(f"{path.name} cannot be read", detail, str(path)) from None
    inputs = {name: values[name,] for name in names if (name,) in values}
    return SavedRun(inputs, seed, values, True, nodes, places, max(0, peak))


def _seed(content: Any) -> int:
    seed = int(content)
    if not 0 <= seed <= _MOST_SEED:
        msg = f"the seed is {seed}; 0 to {_MOST_SEED:,} was expected"
        raise ValueError(msg)
    return seed


def _address(content: Any) -> Address:
    return tuple([str(part) for part in content])
