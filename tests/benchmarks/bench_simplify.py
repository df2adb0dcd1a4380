"""Counts operator nodes after our simplification against onnxsim and onnxslim, and the CPU time each needs.

A tool's figure counts only where its result passes onnx.checker (where the model itself did), runs, gives the same
outputs, keeps the names, types and free dimensions of inputs and outputs, and is no more than 1.3 times as large plus
1 MiB. Outputs are the same that differ no more than ONNX Runtime's own optimisations make them, times ten.

    python tests/benchmarks/bench_simplify.py [FOLDER_OR_MODEL ...]

Without any it takes ../shared/models and those of tests/model/simplify/exported.py.

Without onnxsim or onnxslim installed, theirs is left out. Each tool runs in a process of its own, after one run that is
not counted and leaves the compiled modules behind that an installed program has; CPU time is that of the whole process
with its imports and children, as someone has it who runs the tool.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
MODELS = ROOT.parent / "shared" / "models"
TOOLS = ("ours", "onnxsim", "onnxslim")
_SECONDS = 180

_WORK = """
import resource, sys, json
source, target = sys.argv[1:3]
def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
{imports}
{work}
print(json.dumps(cpu()))
"""
_SCRIPTS = {
    "ours": _WORK.format(
        imports="from onnx_workbench.exec.engine.constant_folding import evaluate\n"
        "from onnx_workbench.model.history.document import Document\n"
        "from onnx_workbench.model.io.reader.read import load\n"
        "from onnx_workbench.model.io.writer.save import save\n"
        "from onnx_workbench.model.simplify.pipeline import simplify",
        work="d = Document(load(source)); simplify(d, evaluate=evaluate); save(d.model, target)",
    ),
    "onnxsim": _WORK.format(
        imports="import onnx, onnxsim",
        work="m, ok = onnxsim.simplify(onnx.load(source)); onnx.save(m, target)",
    ),
    "onnxslim": _WORK.format(
        imports="import onnx, onnxslim", work="onnx.save(onnxslim.slim(onnx.load(source)), target)"
    ),
}


@dataclass
class Outcome:
    """What a tool made of a model."""

    nodes: int = 0
    seconds: float = 0.0
    problem: str = ""


def count_nodes(graph: Any) -> int:
    """Op nodes with those of bodies, without Constant nodes."""
    total = 0
    for node in graph.node:
        total += node.op_type != "Constant"
        for attribute in node.attribute:
            total += sum(
                count_nodes(g) for g in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
            )
    return total


def _name(source: Path) -> str:
    return source.parent.name if source.stem == "model" else source.stem


def simplified(tool: str, source: Path, target: Path) -> Outcome:
    """Run a tool in a process of its own."""
    command = [sys.executable, "-c", _SCRIPTS[tool], str(source.resolve()), str(target.resolve())]
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "packaging" / "launcher")}
    paths.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        with tempfile.TemporaryDirectory() as folder:  # some leave files where they run
            ended = subprocess.run(
                command, cwd=folder, env=paths, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
    except subprocess.TimeoutExpired:
        return Outcome(problem=f"no result in {_SECONDS} s")
    if ended.returncode or not target.exists():
        lines = ended.stderr.strip().splitlines()
        return Outcome(problem="failed: " + (lines[-1][:80] if lines else str(ended.returncode)))
    return Outcome(seconds=json.loads(ended.stdout.strip().splitlines()[-1]))


def why_invalid(source: Path, target: Path) -> str:
    """What is wrong with a result, or empty."""
    import onnx

    before, after = onnx.load(source), onnx.load(target)
    if target.stat().st_size > 1.3 * source.stat().st_size + (1 << 20):
        return "much larger"
    fault = _fault(after)
    if fault and not _fault(before):
        return f"checker: {fault}"
    if [_signature(v) for v in before.graph.input] != [_signature(v) for v in after.graph.input]:
        return "inputs changed"
    if [v.name for v in before.graph.output] != [v.name for v in after.graph.output]:
        return "outputs changed"
    return _difference(source, target)


def _fault(model: Any) -> str:
    import onnx

    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        return str(error).splitlines()[0][:50]
    return ""


def _signature(value: Any) -> tuple[str, int, list[Any]]:
    dims = [d.dim_value if d.HasField("dim_value") else "free" for d in value.type.tensor_type.shape.dim]
    return value.name, value.type.tensor_type.elem_type, dims


def _difference(source: Path, target: Path) -> str:
    from onnx_workbench.model.errors import errors_to

    feeds = _feeds(source)
    before: list[Any] = []
    with suppress(Exception):  # a model that the yardstick cannot run is not compared
        before = list(zip(_run(source, feeds), _run(source, feeds, optimise=True), strict=True))
    if not before:
        return ""
    after: list[Any] = []
    problems: list[str] = []
    with errors_to(lambda error: problems.append(f"does not run: {str(error)[:50]}")):
        after = _run(target, feeds)
    if problems:
        return problems[0]
    for (a, other), b in zip(before, after, strict=True):
        if isinstance(a, np.ndarray) and (a.shape != b.shape or not _is_close(a, b, other)):
            return "outputs differ"
        if not isinstance(a, np.ndarray) and str(a)[:1000] != str(b)[:1000]:
            return "outputs differ"
    return ""


def _feeds(source: Path) -> dict[str, Any]:
    stored = source.with_name("inputs.npz")
    if stored.exists():
        return dict(np.load(stored, allow_pickle=True))
    from onnx_workbench.exec.inputs.sources import make_feeds
    from onnx_workbench.model.io.reader.read import load

    return make_feeds(load(source).graph)


def _is_close(a: Any, b: Any, other: Any) -> bool:
    if a.dtype.kind not in "fc":
        return bool(np.all(a == b))
    scale = float(np.abs(a).max(initial=0))
    noise = 10 * float(np.nan_to_num(np.abs(a - other)).max(initial=0))
    return bool(np.allclose(a, b, rtol=1e-3, atol=max(1e-4 * scale + 1e-7, noise), equal_nan=True))


def _run(path: Path, feeds: dict[str, Any], *, optimise: bool = False) -> list[Any]:
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = {v.name for v in session.get_inputs()}
    return list(session.run(None, {k: v for k, v in feeds.items() if k in names}))


def _write_exported(folder: Path) -> None:
    """The models that tests hold to how many nodes are left."""
    import onnx

    sys.path.insert(0, str(ROOT))
    from tests.model.simplify.exported import ALL, exported

    for name in ALL:
        onnx.save(exported(name), folder / f"{name}.onnx")


def main() -> None:
    """Print a line per model, then the sums."""
    import onnx

    given = [Path(a) for a in sys.argv[1:]]
    seconds = dict.fromkeys(TOOLS, 0.0)
    sums = [0, 0, 0]
    worse = []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as written:
        if not given:
            _write_exported(Path(written))
            given = [MODELS, Path(written)]
        models = [p for g in given for p in ([g] if g.is_file() else sorted(g.rglob("*.onnx")))]
        for tool in TOOLS if models else ():
            simplified(tool, min(models, key=lambda p: p.stat().st_size), Path(folder) / "first.onnx")
        for source in models:
            before = count_nodes(onnx.load(source, load_external_data=False).graph)
            outcomes = {}
            for tool in TOOLS:
                target = Path(folder) / f"{tool}.onnx"
                target.unlink(missing_ok=True)
                outcome = outcomes[tool] = simplified(tool, source, target)
                if not outcome.problem:
                    outcome.nodes = count_nodes(onnx.load(target).graph)
                    outcome.problem = why_invalid(source, target)
                    seconds[tool] += outcome.seconds
            cells = [f"{o.nodes:5}{'!' if o.problem else ' '} {o.seconds:5.2f}s" for o in outcomes.values()]
            problems = "; ".join(f"{t}: {o.problem}" for t, o in outcomes.items() if o.problem)
            print(f"{_name(source)[:40]:40} {before:5} {'  '.join(cells)}  {problems}", flush=True)
            valid = [o.nodes for t, o in outcomes.items() if t != "ours" and not o.problem]
            if valid:
                sums = [a + b for a, b in zip(sums, (before, outcomes["ours"].nodes, min(valid)), strict=True)]
                if outcomes["ours"].nodes > min(valid) or outcomes["ours"].problem:
                    worse.append(_name(source))
    print(f"\nwhere one of the others is valid: {sums[0]} -> ours {sums[1]}, the better of the others {sums[2]}")
    print("CPU seconds: " + ", ".join(f"{tool} {s:.1f}" for tool, s in seconds.items()))
    print(f"more nodes than the better of the others: {', '.join(worse) or 'none'}")


if __name__ == "__main__":
    main()
