"""How much shape inference finds out and what it costs, beside onnx's own and ONNX Runtime's symbolic one.

    python -m tests.benchmarks.bench_infer [FOLDER_OR_MODEL ...]

Counted are values that nodes make, graph outputs left out, in models whose declarations were removed. The second
part takes onnx's own test cases of single operators, their sizes made names, and lists what the symbolic one tells of
outputs and ours does not; where it contradicts the specification, as of Resize with axes, that is said too. The third
times a graph of 10,000 and 100,000 nodes. Without sympy the symbolic one is left out.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.ir.types import ElementType, TensorType, Type
from tests.benchmarks.large_models import tagged, text

MODELS = Path(__file__).parents[3] / "shared" / "models"
KINDS = ("type", "rank", "every size a number or name", "every size a number")

#: Names that the tools make up for sizes they do not know.
_MADE_UP = re.compile(r".*unk__\d+.*|.*_o\d+__d\d+")

#: The dimensions of a value (None: one not known), or None when the rank is not known; and whether the type is.
Known = tuple[bool, tuple[Any, ...] | None]
Found = dict[str, Known]


def _levels(known: Known) -> tuple[bool, ...]:
    is_typed, dims = known
    if dims is not None:  # some exporters write -1 for what is open
        dims = tuple(None if isinstance(d, int) and d < 0 else d for d in dims)
    ranked = dims is not None
    return (
        is_typed,
        ranked,
        ranked and not any(d is None or (isinstance(d, str) and _MADE_UP.fullmatch(d)) for d in dims or ()),
        ranked and all(isinstance(d, int) for d in dims or ()),
    )


def _ours(path: Path) -> Found:
    model = load(path)
    inferred = infer(model)
    return {
        value.name: _known(inferred.types.get(value))
        for graph in model.graph.walk()
        for node in graph.nodes
        for value in node.outputs
        if value is not None and not value.is_output
    }


def _known(kind: Type | None) -> Known:
    if not isinstance(kind, TensorType):
        return kind is not None, None if kind is None else ()
    return kind.element_type != ElementType.UNDEFINED, None if kind.shape is None else kind.shape.dims


def _bare(path: Path) -> Any:
    import onnx

    model = onnx.load(path)
    for graph in _graphs(model.graph):
        del graph.value_info[:]
    return model


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from _graphs(body)


def _read(model: Any) -> Found:
    found: Found = {}
    for graph in _graphs(model.graph):
        outputs = {value.name for value in graph.output}
        infos = {info.name: info.type for info in graph.value_info}
        for node in graph.node:
            for name in node.output:
                if name and name not in outputs:
                    found[name] = _known_message(infos.get(name))
    return found


def _known_message(kind: Any) -> Known:
    if kind is None:
        return False, None
    if kind.WhichOneof("value") != "tensor_type":
        return kind.WhichOneof("value") is not None, ()
    tensor = kind.tensor_type
    if not tensor.HasField("shape"):
        return tensor.elem_type != 0, None
    dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)
    return tensor.elem_type != 0, dims


def _onnx(path: Path) -> Found:
    import onnx

    return _read(onnx.shape_inference.infer_shapes(_bare(path), data_prop=True))


def _symbolic(path: Path) -> Found:
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    bare = _bare(path)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # it leaves files where it runs
        return _read(SymbolicShapeInference.infer_shapes(bare, auto_merge=True))


def compare(models: list[Path]) -> None:
    """Shares of values by what is known of them, and each value that another tool knows and ours does not."""
    tools: dict[str, Callable[[Path], Found]] = {"ours": _ours, "onnx": _onnx, "symbolic": _symbolic}
    counts = {tool: [0] * len(KINDS) for tool in tools}
    totals, failed, common = Counter[str](), Counter[str](), Counter[str]()
    missed: list[str] = []
    for path in models:
        results: dict[str, Found] = {}
        for tool, run in tools.items():
            with contextlib.suppress(Exception):  # a tool that fails on a model is what is counted here
                results[tool] = run(path)
            if tool not in results:
                failed[tool] += 1
                continue
            totals[tool] += len(results[tool])
            for known in results[tool].values():
                counts[tool] = [a + b for a, b in zip(counts[tool], _levels(known), strict=True)]
        ours = results.get("ours", {})
        for tool in ("onnx", "symbolic"):
            for name, known in results.get(tool, {}).items():
                common[tool] += 1
                levels = zip(KINDS, _levels(known), _levels(ours.get(name, (False, None))), strict=True)
                less = [kind for kind, theirs, mine in levels if theirs and not mine]
                if less:
                    missed.append(f"{path.parent.name[:40]} {name[:40]}: {tool} knows {less[0]}: {known[1]}")
    for tool, numbers in counts.items():
        shares = ", ".join(f"{k} {n / max(totals[tool], 1):.2%}" for k, n in zip(KINDS, numbers, strict=True))
        print(f"{tool:9} {len(models) - failed[tool]} of {len(models)} models, {totals[tool]} values: {shares}")
    print(f"known to another and not to ours: {len(missed)} of {sum(common.values())}")
    for line in missed[:40]:
        print(f"  {line}")


def _named_sizes(case: Any, *, all_given: bool) -> Any:
    """A test case with names for sizes, equal ones for equal numbers; inputs beside the first are constants.

    With `all_given` only small integers are.
    """
    import numpy as np
    import onnx

    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    feeds = case.data_sets[0][0] if case.data_sets else []
    kept = []
    for index, (value, feed) in enumerate(zip_longest(model.graph.input, feeds)):
        is_array = isinstance(feed, np.ndarray) and feed.dtype.kind in "iubf" and feed.size < 1000
        if index and is_array and (not all_given or (feed.dtype.kind in "iub" and feed.ndim < 2)):
            model.graph.initializer.append(onnx.numpy_helper.from_array(feed, value.name))
            continue
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_value > 1:
                dim.dim_param = f"s{dim.dim_value}"
        kept.append(value)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for output in model.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return model


def compare_operators() -> None:
    """What the symbolic one tells of single operators' outputs, and ours does not."""
    import numpy as np
    from onnx.backend.test.case.node import collect_testcases
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    report, missed = 0, []
    with np.errstate(all="ignore"):
        cases = [case for case in collect_testcases(None) if case.model is not None and "expanded" not in case.name]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for case, all_given in product(cases, (False, True)):
            model = _named_sizes(case, all_given=all_given)
            theirs = None
            with contextlib.suppress(Exception):  # it gives up on many, and is asked of nothing then
                theirs = SymbolicShapeInference.infer_shapes(model, auto_merge=True)
            if theirs is None:
                continue
            ours = {value.name: kind for value, kind in infer(load(model.SerializeToString())).types.items()}
            for output in theirs.graph.output:
                known = _known_message(output.type)
                mine = _known(ours.get(output.name))
                report += 1
                if any(a and not b for a, b in zip(_levels(known), _levels(mine), strict=True)):
                    missed.append(f"{case.name} {output.name}: {known[1]}, ours {mine[1]}")
    print(f"single operators, known to the symbolic one and not by ours: {len(missed)} of {report}")
    for line in dict.fromkeys(missed):
        print(f"  {line}")


def _chain(path: Path, count: int) -> None:
    """Nodes in a row, with a weight each."""
    nodes = b"".join(
        tagged(1, text(1, f"v{i}") + text(1, "w") + text(2, f"v{i + 1}") + text(3, f"n{i}") + text(4, "Add"))
        for i in range(count)
    )
    kind = tagged(2, tagged(1, b"\x08\x01" + tagged(2, tagged(1, text(2, "batch")) + tagged(1, b"\x08\x10"))))
    weight = tagged(5, b"\x08\x10\x10\x01" + text(8, "w") + tagged(9, bytes(64)))
    graph = nodes + text(2, "g") + weight + tagged(11, text(1, "v0") + kind) + tagged(12, text(1, f"v{count}"))
    path.write_bytes(b"\x08\x08" + tagged(8, text(1, "") + b"\x10\x11") + tagged(7, graph))


def cost(count: int) -> None:
    """Time for a large graph, beside onnx's inference alone on what was read."""
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.onnx"
        _chain(path, count)
        model: Model = load(path)
        start = time.perf_counter()
        found = infer(model)
        answered = time.perf_counter()
        plain = onnx.load(path)
        begun = time.perf_counter()
        onnx.shape_inference.infer_shapes(plain, data_prop=True)
        alone = time.perf_counter() - begun
    print(
        f"{count:,} nodes: {answered - start:.2f} s ({len(found.types):,} types); "
        f"onnx alone {alone:.2f} s, ratio {(answered - start) / alone:.1f}"
    )


def main() -> None:
    """Print all parts."""
    given = [Path(a) for a in sys.argv[1:]] or [MODELS]
    compare([p for g in given for p in ([g] if g.is_file() else sorted(g.glob("*/model.onnx")))])
    compare_operators()
    for count in (10_000, 100_000):
        cost(count)


if __name__ == "__main__":
    main()
