"""Runs of whole models as users meet them: another input first, then all again, the same, the first run, memory.

CPU time of one thread in milliseconds, all values kept, each model in a process of its own, beside ONNX Runtime with
the value of every node as an output (the least of --rounds, by turns). "new": a run with inputs that differ from
those of the run before; "fresh": the same inputs with `fresh=True`; "same": nothing changed. The first run excludes
imports and the reading of the graph, and includes reading the weights. Memory is what the process holds more after the
first run, and after --inputs runs with other inputs. Models are files (with the inputs of `inputs.npz` or MODEL.npz
beside it, else random ones), folders with a model.onnx, names of `models.py` or light_* of the onnx package.

    python tests/benchmarks/bench_run.py [MODEL …] [--rounds 7] [--inputs 20] [--least 3]
"""

from __future__ import annotations

import argparse
import gc
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import onnx
from bench_executor import LIGHT, exposed, runtime_session

from onnx_workbench.exec.inputs.sources import make_feeds
from onnx_workbench.exec.kernels import load as load_kernels
from onnx_workbench.exec.kernels.threads import set_threads
from onnx_workbench.exec.session import Session
from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.schemas import registry as schemas

Feeds = dict[str, Any]


class Row(NamedTuple):
    """CPU milliseconds of each kind of run, bytes held after one run and after many, ONNX Runtime's milliseconds."""

    new: float
    fresh: float
    same: float
    first: float
    held: int
    held_later: int
    runtime: float


def spent(task: Callable[[], Any]) -> float:
    """CPU milliseconds of this process while it runs a task."""
    begun = time.process_time()
    task()
    return (time.process_time() - begun) * 1e3


def resident() -> int:
    """Bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def varied(feeds: Feeds, number: int) -> Feeds:
    """The same inputs with the elements of the largest rolled, so that types, shapes and ranges stay."""
    name = max(feeds, key=lambda n: getattr(feeds[n], "size", 0))
    value = feeds[name]
    if not isinstance(value, np.ndarray) or value.size < 2:
        return feeds
    other = np.roll(value.reshape(-1), number).reshape(value.shape).copy()
    if value.dtype.kind == "f":
        other.reshape(-1)[0] = np.asarray(value.reshape(-1)[0] * (1 + number / 64)).astype(value.dtype)
    return {**feeds, name: other}


def located(name: str) -> Any:
    """The model with a name: a path, or bytes."""
    path = Path(name) / "model.onnx" if Path(name).is_dir() else Path(name)
    if path.is_file():
        return path
    if name.startswith("light_"):
        return (LIGHT / f"{name}.onnx").read_bytes()
    return import_module("models").MODELS[name]().SerializeToString()


def measure(name: str, rounds: int, inputs: int) -> Row:
    """Measure a model in this process, which has run none before."""
    set_threads(1)
    load_kernels()
    schemas.preload()
    import_module("onnx_workbench.model.io.tensors.packing")
    source = located(name)
    model = load(source)
    feeds: Feeds = {}
    for given in (source.parent / "inputs.npz", source.with_suffix(".npz")) if isinstance(source, Path) else ():
        if given.exists():
            feeds = dict(np.load(given, allow_pickle=True))
    feeds = feeds or make_feeds(model.graph)
    variants = [varied(feeds, number + 1) for number in range(max(inputs, rounds + 1))]
    gc.collect()
    gc.freeze()
    before = resident()
    session = Session(model)
    first = spent(lambda: session.run(feeds).raise_for_failure())
    session.run(variants[0])
    held = resident() - before
    for other in variants[1:inputs]:
        session.run(other)
    held_later = resident() - before
    theirs: list[float] = []
    with errors_to(lambda e: print(f"  ONNX Runtime cannot run {name}: {str(e)[:80]}", file=sys.stderr)):
        runtime = runtime_session(exposed(onnx.load_model(source) if isinstance(source, Path) else
                                          onnx.load_from_string(source)), 1)  # fmt: skip
        wanted = {i.name for i in runtime.get_inputs()}
        given_feeds = {n: v for n, v in feeds.items() if n in wanted}
        theirs = [spent(lambda: runtime.run(None, given_feeds)) for _ in range(rounds)]
    times: list[list[float]] = [[], [], []]
    for number in range(rounds):
        times[0].append(spent(lambda other=variants[-2 - number]: session.run(other)))
        times[1].append(spent(lambda other=variants[-2 - number]: session.run(other, fresh=True)))
        times[2].append(spent(lambda other=variants[-2 - number]: session.run(other)))
    return Row(*map(min, times), first, held, held_later, min(theirs, default=math.nan))


def geomean(values: Iterable[float]) -> float:
    """Geometric mean of the finite numbers among some."""
    known = [value for value in values if math.isfinite(value) and value > 0]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each model, and the geometric means."""
    architectures = list(import_module("models").MODELS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=architectures, help="all of models.py unless named")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--inputs", type=int, default=20)
    parser.add_argument("--least", type=float, default=3, help="milliseconds of ONNX Runtime that the means begin at")
    options = parser.parse_args(arguments)
    rows = []
    print("| model | new | fresh | same | first | ORT all | new/fresh | new/ORT | MB, later/one run |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.models:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            row = process.submit(measure, name, options.rounds, options.inputs).result()
        rows.append(row)
        times = " | ".join(f"{time:.2f}" for time in (*row[:4], row.runtime))
        memory = f"{row.held / 1e6:.0f}, {row.held_later / max(row.held, 1):.2f}"
        ratios = f"{row.new / row.fresh:.2f} | {row.new / row.runtime:.2f}"
        print(f"| {Path(name).name[:40]} | {times} | {ratios} | {memory} |", flush=True)
    long = [row for row in rows if row.runtime >= options.least]
    print(f"new/fresh: {geomean(r.new / r.fresh for r in rows):.2f}, at most {max(r.new / r.fresh for r in rows):.2f}")
    if long:
        mean = geomean(row.new / row.runtime for row in long)
        print(f"new/ORT of {len(long)} that take it {options.least:g} ms or more: {mean:.2f}")


if __name__ == "__main__":
    main()
