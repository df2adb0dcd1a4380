"""A run in an .npz file: every value by its name, and what is needed to do it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exec.archive import write_npz
from exec.context import RuntimeValue
from exec.inputs import read_npz
from exec.inspection.compare import value_keys
from exec.results import RunResult

#: Keys that are no values; no exporter names values like this.
_INPUTS, _SEED = "__inputs__", "__seed__"


@dataclass(frozen=True, slots=True)
class SavedRun:
    """What the file of a run holds."""

    inputs: dict[str, RuntimeValue]
    seed: int
    values: dict[str, RuntimeValue]


def save_run(result: RunResult, path: str, inputs: Sequence[str], names: dict[int, str]) -> int:
    """Write the values that were kept, and which of them are inputs; how many. OSError when it cannot be written."""
    known = [key for key in value_keys(result) if result.info(key) is not None and names.get(key[1])]
    kept: list[tuple[str, Any]] = [(names[key[1]], result.value(key)) for key in known]
    named = np.empty(len(inputs), object)
    named[:] = list(inputs)
    extra = [(_INPUTS, named), (_SEED, np.array(result.seed))]
    write_npz(Path(path), [*kept, *extra])
    return len(kept)


def load_run(path: Path) -> SavedRun:
    """A saved run, or any .npz file as one without inputs. ModelError when it cannot be read."""
    arrays = read_npz(path)
    named = [str(name) for name in np.asarray(arrays.pop(_INPUTS, ())).reshape(-1)]
    seeds = np.asarray(arrays.pop(_SEED, 0))
    seed = int(seeds.reshape(-1)[0]) if seeds.size and seeds.dtype.kind in "iu" else 0
    return SavedRun({name: arrays[name] for name in named if name in arrays}, seed, arrays)
