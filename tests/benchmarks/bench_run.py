"""Runs as users meet them, beside ONNX Runtime: another input first, then all again, nothing changed, the first run.

Milliseconds of CPU time of one thread, all values kept, each model in a process of its own; ONNX Runtime gives every
value that depends on an input as an output. Columns are the least of --rounds, engines by turns: "new", a run whose
inputs differ from those of the run before; "fresh", `fresh=True`; "same", nothing changed. "first" is the first run in
the process without imports and reading the graph; "reading" the share of reading the weights once. Memory is what the
process holds more after one run, and how many times as much after --inputs runs with other inputs. "error" is the
largest difference of an output, relative to its largest element. With --threads 2 or more, wall time.

Models are files (with the inputs of MODEL.npz or inputs.npz beside it, else random ones), folders, which are searched,
names of `single_nodes.py`, light_* of the onnx package, or "nodes" or "light" for all of them.

    python tests/benchmarks/bench_run.py [MODEL …] [--size DIM=N …] [--rounds 7] [--inputs 20] [--profile]
    OPENBLAS_CORETYPE=Haswell python tests/benchmarks/bench_run.py …
"""

from __future__ import annotations

import argparse
import gc
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import onnx
import onnxruntime
import single_nodes
from onnx import helper

from onnx_workbench.exec.inputs.sources import make_feeds
from onnx_workbench.exec.kernels import load as load_kernels
from onnx_workbench.exec.kernels.threads import set_threads
from onnx_workbench.exec.results.node_table import State
from onnx_workbench.exec.session import Session
from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.schemas import registry as schemas

Feeds = dict[str, Any]
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

#: Bytes touched before the first run: on a virtual machine, new memory takes many times as long as used one.
_TOUCHED = 1 << 30


@dataclass
class Row:
    name: str
    new: float = math.nan
    fresh: float = math.nan
    same: float = math.nan
    first: float = math.nan
    reading: float = math.nan
    runtime: float = math.nan
    held: int = 0  # bytes after one run
    growth: float = math.nan  # after many runs, times as much
    error: float = math.nan
    failure: str = ""
    costly: list[str] = field(default_factory=list)


# -- models and inputs -------------------------------------------------------------------------------------------


def named(texts: Sequence[str]) -> Iterator[str]:
    """The models that arguments name."""
    for text in texts:
        if text == "nodes":
            yield from single_nodes.CASES
        elif text == "light":
            yield from sorted(path.stem for path in LIGHT.glob("light_*.onnx"))
        elif Path(text).is_dir():
            yield from map(str, sorted(Path(text).rglob("*.onnx")))
        else:
            yield text


def source_of(name: str) -> tuple[Path | bytes, Feeds]:
    """The file or bytes of a model, and the inputs that come with it."""
    path = Path(name)
    if path.is_file():
        beside = (path.with_suffix(".npz"), path.parent / "inputs.npz")
        return path, next((dict(np.load(npz, allow_pickle=False)) for npz in beside if npz.exists()), {})
    if name in single_nodes.CASES:
        return single_nodes.CASES[name]()
    return (LIGHT / f"{name}.onnx").read_bytes(), {}


def varied(feeds: Feeds, number: int) -> Feeds:
    """The same inputs with the elements of the largest that can differ in another order: types and ranges stay.

    ValueError if there is none: a run would have nothing to compute.
    """
    for name in sorted(feeds, key=lambda n: getattr(feeds[n], "size", 0), reverse=True):
        value = feeds[name]
        if isinstance(value, np.ndarray) and value.size:
            other = np.roll(value.reshape(-1), number).reshape(value.shape)
            if value.dtype.kind == "f":
                other.reshape(-1)[0] *= 1 + number / 64
            if not np.array_equal(other, value):
                return {**feeds, name: other}
    msg = "no order of its inputs is another one; give them sizes"
    raise ValueError(msg)


def exposed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every value that depends on an input as an output."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    constants = {t.name for t in model.graph.initializer}
    varying = {i.name for i in model.graph.input if i.name not in constants}
    have = {o.name for o in model.graph.output}
    for node in model.graph.node:
        if any(name in varying for name in node.input):
            varying.update(o for o in node.output if o)
            more = [o for o in node.output if o and o not in have]
            result.graph.output.extend(map(helper.make_empty_tensor_value_info, more))
    return result


def runtime_session(source: Path | bytes, folder: Path, threads: int) -> Any:
    """A session of ONNX Runtime that gives every value."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    model = onnx.load(source) if isinstance(source, Path) else onnx.load_from_string(source)
    whole = folder / "model.onnx"
    onnx.save(exposed(model), whole, save_as_external_data=model.ByteSize() > 1 << 30)
    return onnxruntime.InferenceSession(whole, options, providers=["CPUExecutionProvider"])


# -- measuring ---------------------------------------------------------------------------------------------------


def bench(name: str, options: argparse.Namespace) -> Row:
    """One model in this process, which has run none before; the row says why if an engine cannot run it."""
    row = Row(name if name in single_nodes.CASES else Path(name).stem)
    row.name = Path(name).parent.name if row.name == "model" else row.name
    with errors_to(lambda e: setattr(row, "failure", f"{type(e).__name__}: {' '.join(str(e).split())[:160]}")):
        _bench(name, row, options)
    return row


def _bench(name: str, row: Row, options: argparse.Namespace) -> None:
    set_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    load_kernels()
    schemas.preload()
    import_module("onnx_workbench.model.io.tensors.packing")  # otherwise when the first tensor is read
    source, feeds = source_of(name)
    model = load(source)
    sizes = {size: int(number) for size, _, number in (text.rpartition("=") for text in options.size)}
    feeds = feeds or make_feeds(model.graph, sizes=sizes)
    variants = [varied(feeds, number + 1) for number in range(options.inputs + options.rounds)]
    session = Session(model)
    np.ones(_TOUCHED, np.uint8)
    gc.collect()
    gc.freeze()
    before = resident()
    row.first = spent(lambda: session.run(feeds).raise_for_failure(), clock)
    outputs = session.run(variants[0]).outputs
    row.held = resident() - before
    for other in variants[1 : options.inputs]:
        session.run(other)
    row.growth = (resident() - before) / max(row.held, 1)
    tensors = [v.initializer for v in load(source).graph.initializers if v.initializer is not None]
    row.reading = spent(lambda: [tensor.numpy() for tensor in tensors], clock)
    with tempfile.TemporaryDirectory() as folder:
        runtime = runtime_session(source, Path(folder), options.threads)
        takes = [i.name for i in runtime.get_inputs()]
        given = [{n: v for n, v in one.items() if n in takes} for one in variants]
        row.error = largest_error(outputs, dict(zip(outputs, runtime.run(list(outputs), given[0]), strict=True)))
        times: list[tuple[float, ...]] = []
        for number in range(options.rounds):
            at = options.inputs + number  # not that of the run before
            theirs, new, again, fresh, same = (
                spent(task, clock)
                for task in (
                    lambda at=at: runtime.run(None, given[at]),
                    lambda at=at: session.run(variants[at]),
                    lambda at=at: runtime.run(None, given[at]),  # which fills the caches with its own weights
                    lambda at=at: session.run(variants[at], fresh=True),
                    lambda at=at: session.run(variants[at]),
                )
            )
            times.append((new, fresh, same, min(theirs, again)))
    row.new, row.fresh, row.same, row.runtime = map(min, zip(*times, strict=True))
    if options.profile:
        row.costly = costliest(session, feeds)


def spent(task: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Milliseconds of a task."""
    begun = clock()
    task()
    return (clock() - begun) * 1e3


def resident() -> int:
    """Bytes of memory that this process holds; Linux only."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def costliest(session: Session, feeds: Feeds, count: int = 5) -> list[str]:
    """The nodes that take longest, each with the least wall time of a few runs."""
    least: dict[str, float] = {}
    for _ in range(5):
        for node in session.run(feeds, fresh=True).nodes:
            if node.state is State.DONE:
                least[node.title] = min(node.seconds, least.get(node.title, math.inf))
    slowest = sorted(least, key=least.__getitem__, reverse=True)[:count]
    return [f"{title} {least[title] * 1e3:.1f}" for title in slowest]


def largest_error(ours: Feeds, theirs: Feeds) -> float:
    """The largest difference of tensors of floats, relative to the largest element; inf where shapes differ."""
    worst = 0.0
    for name, expected in theirs.items():
        if isinstance(expected, np.ndarray) and expected.dtype.kind == "f" and expected.size:
            if np.shape(ours[name]) != expected.shape:
                return math.inf
            worst = max(worst, float(np.abs(ours[name] - expected).max() / max(float(np.abs(expected).max()), 1e-30)))
    return worst


# -- the table ---------------------------------------------------------------------------------------------------


def line(row: Row) -> str:
    """The row of a model in the table."""
    if row.failure:
        return f"| {row.name[:44]} | {row.failure} |"
    cells = [f"{value:.2f}" for value in (row.new, row.fresh, row.same, row.first, row.reading, row.runtime)]
    cells += [f"{row.new / row.fresh:.2f}", f"{row.new / row.runtime:.2f}", f"{row.held / 1e6:.0f}"]
    cells += [f"{row.growth:.2f}", f"{row.error:.0e}", *row.costly]
    return f"| {row.name[:44]} | {' | '.join(cells)} |"


def geomean(values: Iterable[float]) -> float:
    """Geometric mean."""
    known = list(values)
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan


def summary(rows: Sequence[Row], least: float) -> Iterator[str]:
    """The means over models, apart for those that take ONNX Runtime `least` milliseconds or more."""
    ran = [row for row in rows if not row.failure]
    if not ran:
        return
    ratios = [row.new / row.fresh for row in ran]
    yield f"new/fresh {geomean(ratios):.2f}, at most {max(ratios):.2f}; memory × {max(row.growth for row in ran):.2f}"
    long, short = ([row for row in ran if (row.runtime >= least) == is_long] for is_long in (True, False))
    if long:
        ratios = [row.new / row.runtime for row in long]
        first = geomean(max(row.first - row.reading, row.new) / row.new for row in long)
        yield f"{len(long)} of {least:g} ms or more: new/ORT {geomean(ratios):.2f}, at most {max(ratios):.2f}"
        yield f"  first run without reading / new: {first:.2f}"
    if short:
        above = sorted(row.new - row.runtime for row in short)
        yield f"{len(short)} shorter ones: {above[len(above) // 2]:.2f} ms above ONNX Runtime in the median"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each model, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["light"])
    parser.add_argument("--size", action="append", default=[], metavar="DIM=N", help="of an open dimension")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--inputs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--least", type=float, default=3, help="milliseconds of ONNX Runtime that means begin at")
    parser.add_argument("--profile", action="store_true", help="also each model's costliest nodes, in ms")
    options = parser.parse_args(arguments)
    rows = []
    print("| model | new | fresh | same | first | reading | ORT | new/fresh | new/ORT | MB | × later | error |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name in named(options.models):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            rows.append(process.submit(bench, name, options).result())
        print(line(rows[-1]), flush=True)
    print(*summary(rows, options.least), sep="\n")


if __name__ == "__main__":
    main()
