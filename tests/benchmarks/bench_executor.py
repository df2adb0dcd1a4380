"""Whole models with every intermediate kept: ours, onnx.reference and ONNX Runtime, in one process.

Single-thread CPU time, engines interleaved, the minimum of --rounds. ONNX Runtime gives every non-constant
intermediate as an output, as a preview needs. Each model has a process of its own: the memory that large models leave
behind makes the next one's engines slower, and not all of them alike. Run from the repository:

    python tests/benchmarks/bench_executor.py [MODEL …] [--light] [--reference] [--rounds 7] [--threads 2]
    python tests/benchmarks/bench_executor.py [MODEL …] [--light] --both

The second compares ours on two threads with ours on one, by the clock: it says nothing on a machine that is not quiet.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import models as architectures  # beside this file, which is a script
import numpy as np
import onnx
from onnx import helper

from onnx_workbench.exec.kernels.threads import set_threads
from onnx_workbench.exec.results.node_table import State
from onnx_workbench.exec.session import Session
from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.io.reader.read import load

#: light_* models that ONNX Runtime is slow on for a reason of its own (LRN): not part of the headline.
LRN = ("light_bvlc_alexnet", "light_zfnet512")


@dataclass
class Row:
    name: str
    nodes: int
    ours: float = math.nan
    reference: float = math.nan
    runtime: float = math.nan  # ONNX Runtime, only the outputs
    runtime_all: float = math.nan
    error: float = math.nan
    costly: list[str] = field(default_factory=list)


LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def light_model(name: str) -> onnx.ModelProto:
    return onnx.load(LIGHT / f"{name}.onnx")


def feeds_of(model: onnx.ModelProto) -> dict[str, Any]:
    constants = {t.name for t in model.graph.initializer}
    bare = onnx.ModelProto()
    bare.graph.input.extend(i for i in model.graph.input if i.name not in constants)
    return architectures.random_feeds(bare)


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
            result.graph.output.extend(
                helper.make_empty_tensor_value_info(o) for o in node.output if o and o not in have
            )
    return result


def runtime_session(model: onnx.ModelProto, threads: int) -> Any:
    try:
        import onnxruntime as ort
    except ImportError:
        return None
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def reference_session(model: onnx.ModelProto) -> Any:
    from onnx.reference import ReferenceEvaluator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(model)


def run_reference(evaluator: Any, feeds: dict[str, Any]) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        evaluator.run(None, feeds)


def measure(
    tasks: dict[str, Callable[[], Any]], rounds: dict[str, int], clock: Callable[[], float]
) -> dict[str, float]:
    """The least time of each task in seconds, the tasks taking turns."""
    best = dict.fromkeys(tasks, math.inf)
    for turn in range(max(rounds.values(), default=0)):
        for name, task in tasks.items():
            if turn < rounds[name]:
                begun = clock()
                task()
                best[name] = min(best[name], clock() - begun)
    return best


def bench(name: str, options: argparse.Namespace) -> Row:
    """One model through all engines, in this process."""
    set_threads(options.threads)
    model = light_model(name) if name.startswith("light_") else architectures.MODELS[name]()
    feeds = feeds_of(model)
    session = Session(load(model.SerializeToString()))
    row = Row(name, len(model.graph.node))
    first = session.run(feeds).raise_for_failure()
    tasks: dict[str, Callable[[], Any]] = {"ours": lambda: session.run(feeds, fresh=True)}
    rounds = {"ours": options.rounds}
    plain = runtime_session(model, options.threads)
    if plain is not None:
        everything = runtime_session(exposed(model), options.threads)
        tasks |= {"runtime": lambda: plain.run(None, feeds), "runtime_all": lambda: everything.run(None, feeds)}
        rounds |= {"runtime": options.rounds, "runtime_all": options.rounds}
        row.error = largest_error(
            first.outputs, dict(zip([o.name for o in model.graph.output], plain.run(None, feeds), strict=True))
        )
    if options.reference:
        # It cannot run some exports at all.
        with errors_to(lambda e: print(f"  onnx.reference cannot run {name}: {str(e)[:80]}", file=sys.stderr)):
            evaluator = reference_session(model)
            run_reference(evaluator, feeds)
            tasks["reference"] = lambda: run_reference(evaluator, feeds)
            rounds["reference"] = options.reference_rounds
    clock = time.process_time if options.threads == 1 else time.perf_counter
    for key, seconds in measure(tasks, rounds, clock).items():
        setattr(row, key, seconds)
    row.costly = costliest(session, feeds)
    return row


def both(name: str, options: argparse.Namespace) -> tuple[float, float]:
    """Seconds of one model on one thread and on two, taking turns."""
    model = light_model(name) if name.startswith("light_") else architectures.MODELS[name]()
    feeds, tasks = feeds_of(model), {}
    for count in (1, 2):
        set_threads(count)
        session = Session(load(model.SerializeToString()))
        session.run(feeds).raise_for_failure()

        def task(count: int = count, session: Session = session) -> None:
            set_threads(count)
            session.run(feeds, fresh=True)

        tasks[str(count)] = task
    best = measure(tasks, dict.fromkeys(tasks, options.rounds), time.perf_counter)
    return best["1"], best["2"]


def costliest(session: Session, feeds: dict[str, Any], count: int = 5) -> list[str]:
    """The nodes that take longest, each with the least wall time of a few runs."""
    least: dict[str, float] = {}
    for _ in range(5):
        for node in session.run(feeds, fresh=True).nodes:
            if node.state is State.DONE:
                least[node.title] = min(node.seconds, least.get(node.title, math.inf))
    slowest = sorted(least, key=least.__getitem__, reverse=True)[:count]
    return [f"{title} {least[title] * 1e3:.1f}" for title in slowest]


def largest_error(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    worst = 0.0
    for name, expected in theirs.items():
        if isinstance(expected, np.ndarray) and expected.dtype.kind == "f" and expected.size:
            worst = max(worst, float(np.abs(ours[name] - expected).max() / max(float(np.abs(expected).max()), 1e-30)))
    return worst


def geomean(values: Iterable[float]) -> float:
    known = [v for v in values if math.isfinite(v) and v > 0]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan


def text(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def report(rows: Sequence[Row]) -> None:
    heading = "model|nodes|ours ms|reference ms|ORT ms|ORT all ms|ours/ORT all|ref/ours|error|costliest nodes, ms"
    print(f"| {heading.replace('|', ' | ')} |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for r in rows:
        cells = [
            r.name, str(r.nodes), text(r.ours * 1e3), text(r.reference * 1e3), text(r.runtime * 1e3),
            text(r.runtime_all * 1e3), text(r.ours / r.runtime_all, 2), text(r.reference / r.ours), f"{r.error:.0e}",
            ", ".join(r.costly),
        ]  # fmt: skip
        print("| " + " | ".join(cells) + " |", flush=True)
    groups = {
        "float exports": [r for r in rows if r.name in architectures.MODELS and r.name not in architectures.QUANTISED],
        "transformers": [r for r in rows if r.name in architectures.TRANSFORMERS],
        "QDQ": [r for r in rows if r.name in architectures.QUANTISED],
        "light": [r for r in rows if r.name.startswith("light_")],
        "light without LRN": [r for r in rows if r.name.startswith("light_") and r.name not in LRN],
    }
    print("\n| geometric mean | n | ours/ORT all | ref/ours |\n|---|---|---|---|")
    for label, group in groups.items():
        if group:
            ratio = geomean(r.ours / r.runtime_all for r in group)
            print(
                f"| {label} | {len(group)} | {text(ratio, 2)} | {text(geomean(r.reference / r.ours for r in group))} |"
            )


def overhead(count: int = 2000) -> None:
    """Time per node of a chain of tiny additions, kernel included."""
    nodes = [helper.make_node("Add", [f"v{i}", "c"], [f"v{i + 1}"]) for i in range(count)]
    value = onnx.numpy_helper.from_array(np.ones(4, np.float32), "c")
    ends = [helper.make_tensor_value_info(n, 1, [4]) for n in ("v0", f"v{count}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], [value])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session, feeds = Session(load(model.SerializeToString())), {"v0": np.ones(4, np.float32)}
    session.run(feeds)
    tasks: dict[str, Callable[[], Any]] = {"ours": lambda: session.run(feeds, fresh=True)}
    everything = runtime_session(exposed(model), 1)
    if everything is not None:
        tasks["ONNX Runtime, all values"] = lambda: everything.run(None, feeds)
    for name, seconds in measure(tasks, dict.fromkeys(tasks, 15), time.process_time).items():
        print(f"{name}: {seconds / count * 1e6:.2f} µs a node over {count:,} tiny nodes")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(architectures.MODELS)}, or light_*; all unless named")
    parser.add_argument("--light", action="store_true", help="also the light_* models of the onnx package")
    parser.add_argument("--reference", action="store_true", help="also onnx.reference (slow)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--reference-rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="more than one measures wall time")
    parser.add_argument("--both", action="store_true", help="only ours, on one thread and on two by turns, wall time")
    options = parser.parse_args(arguments)
    light = sorted(path.stem for path in LIGHT.glob("light_*.onnx")) if options.light else []
    chosen = options.models or [*architectures.MODELS, *light]
    rows = []
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh, max_tasks_per_child=1) as processes:
        for name in chosen:
            if options.both:
                one, two = processes.submit(both, name, options).result()
                print(f"{name}: one thread {one * 1e3:.1f} ms, two {two * 1e3:.1f} ms, {two / one:.2f} ×", flush=True)
                continue
            row = processes.submit(bench, name, options).result()
            rows.append(row)
            ratio = text(row.ours / row.runtime_all, 2)
            print(f"  {name}: {row.ours * 1e3:.1f} ms, {ratio} × ORT all", file=sys.stderr, flush=True)
    if not options.both:
        report(rows)
        overhead()


if __name__ == "__main__":
    main()
