"""Saved runs, as .npz files: all values, also inside functions and bodies, and the seed and inputs to repeat the run.

Each array can be read with numpy alone. The key of a value of the main graph is its name; the key of a value inside
functions and bodies also has the calls and bodies around it, outermost first, as in ``block > loop.body > scores``.
Of a body the values of the last iteration are stored. For types unknown to numpy see `NpzArchive.add`.

``__run__`` is a JSON text that maps addresses to keys::

    {"seed": 0, "inputs": ["x"], "values": [[["x"], {"key": "x"}], [["block", "scores"], {"key": "block > scores"}]]}

Several addresses may share one array: the output of a call is an output inside the function.

Costs of nodes are in arrays of equal length: ``__nodes__`` has the key of the first output of each, as above,
``__states__`` the name of its `State`, then ``__seconds__``, ``__bytes__`` (of its outputs) and ``__turns__``
(number of executions, if it is in a body). ``__run__`` has their actual keys and the addresses as ``"profile"``;
older files lack these.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onnx_workbench.exec.inputs.sources import read_npz, reassembled
from onnx_workbench.exec.results.node_table import NO_NODES, STATES, NodeResult, NodeTable, State
from onnx_workbench.exec.results.run_result import RunResult, value_keys
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.npz_files import NpzArchive, Stored, stored_value, writing
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Value

#: The key of the description; no exporter names values like this.
_RUN = "__run__"

_STATE_NAMES = np.array([state.name for state in STATES], object)

#: The largest seed that can be chosen in the program.
_MOST_SEED = 2**31 - 1

#: Address of a value: the calls and bodies around it, outermost first, and its name.
Address = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SavedRun:
    """Content of a saved run. `is_run`: it was written by `save_run`, with addresses; False for other .npz files.

    `nodes` are the outcomes of nodes, without ids, and `places` the addresses of their first outputs; like `peak_bytes`
    they are missing in older files.
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
    """Write all computed values and inputs of a run; return the number of values.

    Values without an address, such as constants, which are in the model, are left out, also where calls of functions
    pass them on. `places` are the addresses of the first outputs of `nodes`, whose costs are written. OSError if the
    file cannot be written; no file is left when it is cancelled.
    """
    slots = result.layout.slots
    constant = {slot for key, slot in slots.items() if key not in addresses}
    held: dict[object, Stored] = {}  # by slot, or by key where there is none
    values: list[tuple[Address, Stored]] = []
    keys = list(_keys(result))
    with writing(Path(path)) as archive:
        for key in result.caller_progress.paced(keys, 1, of=len(keys)):
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
        msg = "times, memory or counts of its nodes are invalid"
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
    """Yield the keys of all values: those outside of calls in run order, then those inside calls, then in bodies."""
    first = dict.fromkeys(value_keys(result))
    yield from first
    yield from (key for key in result.layout.slots if key not in first)
    inside = ((path, value) for path, values in result.bodies.items() for value in values)
    yield from (key for key in inside if key not in result.layout.slots)


def load_run(path: Path, declared: Iterable[Value] = ()) -> SavedRun:
    """Read a saved run, or any other .npz file as a run without inputs. ModelError if it cannot be read.

    In other files the parts of sequences and maps are found by the types of `declared` values.
    """
    arrays = read_npz(path)
    description = arrays.pop(_RUN, None)
    if description is None:
        whole = reassembled(arrays, declared)
        return SavedRun({}, 0, {(name,): value for name, value in whole.items()}, is_run=False)
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
        detail = f"{_RUN} in it does not describe a run: {error}"
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
