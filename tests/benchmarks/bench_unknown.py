"""Model files against ONNX Runtime with every value kept: CPU time of one thread, each model in a process of its own.

Made for models that nobody tuned for: give it your own. Arguments are files or folders, which are searched for .onnx
files. The inputs are those of MODEL.npz beside MODEL.onnx, else random ones of the declared shapes (`--size DIM=N` sets
an open dimension). For each model: the first run in a process and what it takes more than a later one, as
bench_first_run.py measures them; a later one (the least of --rounds, in turn with ONNX Runtime), what a later one takes
outside of its nodes, the peak of memory after these runs, and the largest difference of an output (inf: of another
shape).

    python tests/benchmarks/bench_unknown.py PATH … [--size DIM=N …] [--rounds 7] [--profile]
    OPENBLAS_CORETYPE=Haswell python tests/benchmarks/bench_unknown.py PATH …
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import bench_first_run
import numpy as np
from bench_executor import costliest, exposed, geomean, largest_error, measure, text

from onnx_workbench.exec.inputs.sources import make_feeds
from onnx_workbench.exec.session import Session
from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.io.reader.read import load

#: Milliseconds from which on a model counts for the mean; below, what it takes more than ONNX Runtime is shown.
SMALL = 3.0


@dataclass
class Row:
    name: str
    nodes: int = 0
    first: float = math.nan  # all in milliseconds
    first_ratio: float = math.nan
    later: float = math.nan
    outside: float = math.nan  # of a later run, what its nodes do not account for
    runtime: float = math.nan
    peak: float = math.nan  # MB
    error: float = math.nan
    failure: str = ""
    costly: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return self.later / self.runtime


def bench(path: Path, sizes: dict[str, int], rounds: int, profile: bool) -> Row:
    """One model, in this process; a row that names the failure when one of the engines cannot run it."""
    row = Row(path.stem if path.stem != "model" else path.parent.name)
    with errors_to(lambda e: setattr(row, "failure", f"{type(e).__name__}: {' '.join(str(e).split())[:160]}")):
        _bench(path, row, sizes, rounds, profile)
    return row


def _bench(path: Path, row: Row, sizes: dict[str, int], rounds: int, profile: bool) -> None:
    bench_first_run.prepare()
    model = load(path)
    row.nodes = len(model.graph.nodes)
    given = path.with_suffix(".npz")
    feeds = dict(np.load(given)) if given.exists() else make_feeds(model.graph, sizes=sizes)
    session = Session(model)
    begin = bench_first_run.measure(session, feeds, lambda: load(path), 3)
    row.first, row.first_ratio = begin.first, begin.ratio
    row.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    outputs = session.run(feeds, fresh=True).raise_for_failure().outputs
    with tempfile.TemporaryDirectory() as folder:
        theirs = _runtime(path, Path(folder))
        names = [o.name for o in theirs.get_outputs()]
        expected = dict(zip(names, theirs.run(None, feeds), strict=True))
        theirs_given = {name: expected[name] for name in outputs}
        if any(np.shape(outputs[name]) != np.shape(value) for name, value in theirs_given.items()):
            row.error = math.inf  # as where a sum of rounded durations decides on a length
        else:
            row.error = largest_error(outputs, theirs_given)
        tasks: dict[str, Callable[[], Any]] = {
            "ours": lambda: session.run(feeds, fresh=True),
            "theirs": lambda: theirs.run(None, feeds),
        }
        count = max(rounds, min(200, int(0.05 / max(begin.later / 1e3, 1e-4))))  # more where a run is short
        best = measure(tasks, dict.fromkeys(tasks, count), time.process_time)
    row.later, row.runtime = best["ours"] * 1e3, best["theirs"] * 1e3
    row.outside = min(_outside(session, feeds) for _ in range(rounds))
    if profile:
        row.costly = costliest(session, feeds)


def _outside(session: Session, feeds: dict[str, Any]) -> float:
    begun = time.perf_counter()
    result = session.run(feeds, fresh=True)
    return (time.perf_counter() - begun - sum(n.seconds or 0.0 for n in result.nodes)) * 1e3


def _runtime(path: Path, folder: Path) -> Any:
    """A session of ONNX Runtime that gives every value that depends on an input, from a file in the folder."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    model = onnx.load(path)
    whole = folder / "model.onnx"
    onnx.save(exposed(model), whole, save_as_external_data=model.ByteSize() > 1 << 30)
    return onnxruntime.InferenceSession(whole, options, providers=["CPUExecutionProvider"])


def report(rows: Sequence[Row]) -> None:
    print("| model | nodes | first ms | first/later | later ms | ORT ms | later/ORT | outside ms | peak MB | error |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for r in sorted(rows, key=lambda r: -r.ratio if r.ratio == r.ratio else 0):
        if r.failure:
            print(f"| {r.name} | {r.nodes} | {r.failure} |")
            continue
        cells = [
            r.name, str(r.nodes), text(r.first), text(r.first_ratio, 2), text(r.later, 2), text(r.runtime, 2),
            text(r.ratio, 2), text(r.outside, 2), text(r.peak, 0), f"{r.error:.0e}", *r.costly,
        ]  # fmt: skip
        print("| " + " | ".join(cells) + " |")
    large = [r for r in rows if not r.failure and r.runtime >= SMALL]
    small = [r for r in rows if not r.failure and r.runtime < SMALL]
    if large:
        mean, worst = geomean(r.ratio for r in large), max(r.ratio for r in large)
        print(
            f"\n{len(large)} of {SMALL:g} ms or more: later/ORT {mean:.2f} (geometric mean), {worst:.2f} at most; "
            f"first/later {geomean(r.first_ratio for r in large):.2f}"
        )
    if small:
        excess = sorted(r.later - r.runtime for r in small)
        print(
            f"{len(small)} shorter ones: {excess[len(excess) // 2]:.2f} ms above ONNX Runtime in the median, "
            f"{excess[-1]:.2f} at most; first/later {geomean(r.first_ratio for r in small):.2f}"
        )


def files(paths: Sequence[str]) -> list[Path]:
    """The model files of the arguments, folders searched."""
    found: list[Path] = []
    for path in map(Path, paths):
        found.extend(sorted(path.rglob("*.onnx")) if path.is_dir() else [path])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each model, the worst first, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="model files, or folders with some")
    parser.add_argument("--size", action="append", default=[], metavar="DIM=N", help="of an open dimension")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--profile", action="store_true", help="also each model's costliest nodes")
    options = parser.parse_args(arguments)
    sizes = {name: int(size) for name, _, size in (s.rpartition("=") for s in options.size)}
    rows = []
    for path in files(options.paths):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            rows.append(process.submit(bench, path, sizes, options.rounds, options.profile).result())
        told = rows[-1].failure or f"{rows[-1].later:.2f} ms, {rows[-1].ratio:.2f} × ORT"
        print(f"  {rows[-1].name}: {told}", file=sys.stderr, flush=True)
    report(rows)


if __name__ == "__main__":
    main()
