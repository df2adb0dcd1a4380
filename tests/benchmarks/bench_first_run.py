"""The first run of a model against a later one: CPU time of the process, one thread, each model in its own process.

The first run includes reading the weights, laying them out and planning, but no imports and not the reading of the
graph. What imports leave is collected before: a full collection takes some 20 ms, and would fall into most first runs.
Time is that of the program and of the system together: only their sum is exact, the system divides it by what it sees
at each tick of its clock. It includes the first touch of memory, which on a virtual machine that gives freed memory
back to its host takes many times as long: so as much memory is touched, and freed, before. The ratio is (first run -
reading the weights once) / later run; reading is measured on another copy of the model. Models are files (with the
inputs of MODEL.npz beside MODEL.onnx, else random ones), folders with a model.onnx, or names of `models.py`, by default
all of these.

    python tests/benchmarks/bench_first_run.py [MODEL …] [--rounds 5] [--least 3]
"""

from __future__ import annotations

import argparse
import gc
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import models as architectures
import numpy as np

from onnx_workbench.exec.inputs.sources import make_feeds
from onnx_workbench.exec.kernels import load as load_kernels
from onnx_workbench.exec.kernels.threads import set_threads
from onnx_workbench.exec.session import Session
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.schemas import registry as schemas

#: Bytes that are touched before the first run.
_TOUCHED = 1 << 30


class FirstRun(NamedTuple):
    """CPU milliseconds of a first run, of reading the weights once, and of the quickest later run."""

    first: float
    reading: float
    later: float

    @property
    def ratio(self) -> float:
        """How many times a later run the first is, apart from reading the weights."""
        return (self.first - self.reading) / self.later


def prepare() -> None:
    """Import what a run needs, before anything is measured."""
    set_threads(1)
    load_kernels()
    schemas.preload()
    import_module("onnx_workbench.model.io.tensors.packing")  # otherwise when the first tensor is read


def measure(session: Session, feeds: dict[str, Any], read: Callable[[], Any], rounds: int) -> FirstRun:
    """Run a session for the first time in this process, and later. `read()` gives another copy of its model."""
    np.ones(_TOUCHED, np.uint8)
    gc.collect()
    gc.freeze()
    first = _spent(lambda: session.run(feeds, fresh=True))
    later = min(_spent(lambda: session.run(feeds, fresh=True)) for _ in range(rounds))
    tensors = [v.initializer for v in read().graph.initializers if v.initializer is not None]
    return FirstRun(first, _spent(lambda: [tensor.numpy() for tensor in tensors]), later)


def _spent(task: Callable[[], Any]) -> float:
    """CPU milliseconds of this process while it runs a task."""
    begun = time.process_time()
    task()
    return (time.process_time() - begun) * 1e3


def measure_named(name: str, rounds: int) -> FirstRun:
    """Measure a model in this process, which has run none before."""
    prepare()
    path = Path(name) / "model.onnx" if Path(name).is_dir() else Path(name)
    source = path if path.is_file() else architectures.MODELS[name]().SerializeToString()
    model = load(source)
    given = path.with_suffix(".npz")
    feeds = dict(np.load(given)) if path.is_file() and given.exists() else make_feeds(model.graph)
    return measure(Session(model), feeds, lambda: load(source), rounds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each model, and the geometric mean of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(architectures.MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--least", type=float, default=3, help="milliseconds of a later run that the mean begins at")
    options = parser.parse_args(arguments)
    ratios = []
    print(f"{'model':44} {'first':>9} {'reading':>9} {'later':>9}  ratio")
    for name in options.models:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            run = process.submit(measure_named, name, options.rounds).result()
        times = " ".join(f"{time:9.1f}" for time in run)
        print(f"{Path(name).name[:44]:44} {times} {run.ratio:6.2f}", flush=True)
        if run.later >= options.least:
            ratios.append(run.ratio)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of {len(ratios)} that take {options.least:g} ms or more: {mean:.2f}")


if __name__ == "__main__":
    main()
