"""A model, what it computes, and what it is compared with."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import onnx_workbench as ow
from onnx_workbench.exec.inspect.compare import compare_values
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.session import Session
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.graph import Model
from tests.fuzz.child import Child
from tests.fuzz.generator import array_of
from tests.onnx_runtime import make_session, smallest_model_like

Feeds = dict[str, Any]
#: Sizes of the symbols, one run each.
SIZES = ({"N": 7, "M": 2, "K": 3}, {"N": 1, "M": 1, "K": 1}, {"N": 0, "M": 3, "K": 2})


@dataclass
class Case:
    """A model and what it computes."""

    proto: onnx.ModelProto
    seed: int = 0
    sizes: tuple[Mapping[str, int], ...] = SIZES

    def without_size_0(self) -> Case:
        return Case(self.proto, self.seed, tuple(sizes for sizes in self.sizes if all(sizes.values())))

    @cached_property
    def data(self) -> bytes:
        return self.proto.SerializeToString()

    @property
    def rng(self) -> random.Random:
        return random.Random(self.seed)

    def load(self) -> Model:
        return ow.load(self.data)

    @cached_property
    def results(self) -> list[tuple[Feeds, RunResult]]:
        """Feeds and result for each set of sizes on which the model runs."""
        rng, found = self.rng, []
        has_symbols = any(d.dim_param for i in self.proto.graph.input for d in i.type.tensor_type.shape.dim)
        for sizes in self.sizes if has_symbols else self.sizes[:1]:
            feeds = feeds_of(self.proto, sizes, rng)
            result = session_of(self.data).run(feeds, time_limit=20)
            if result.ok and not result.stopped:
                found.append((feeds, result))
        return found

    @cached_property
    def runs(self) -> list[tuple[Feeds, dict[str, Any]]]:
        """Feeds and outputs for each set of sizes on which the model runs."""
        return [(feeds, dict(result.outputs)) for feeds, result in self.results]

    @cached_property
    def errors(self) -> set[str]:
        return errors_of(self.load())

    @cached_property
    def is_loaded_by_ort(self) -> bool:
        return not isinstance(ORT.run(self.data), str)


def feeds_of(proto: onnx.ModelProto, sizes: Mapping[str, int], rng: random.Random) -> Feeds:
    given = {t.name for t in proto.graph.initializer}
    feeds = {}
    for value in proto.graph.input:
        if value.name not in given:
            tensor = value.type.tensor_type
            dims = tuple(sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim)
            feeds[value.name] = array_of(rng, tensor.elem_type, dims)
    return feeds


@lru_cache(maxsize=2)
def session_of(data: bytes) -> Session:
    """A session for all sizes of a model."""
    return Session(ow.load(data))


def run(data: bytes, feeds: Feeds) -> tuple[dict[str, Any] | None, str]:
    """The outputs that our executor computes, or why it does not."""
    result = session_of(data).run(feeds, time_limit=20)
    if result.ok and not result.stopped:
        return dict(result.outputs), ""
    return None, str(result.failures[0]) if result.failures else result.stopped or "not run"


def errors_of(model: Model) -> set[str]:
    return {f"{p.rule}: {p.message} {p.detail}" for p in ow.check(model) if p.severity == "error"}


def as_text(proto: onnx.ModelProto) -> str:
    """The model as ONNX text."""
    return str(onnx.printer.to_text(proto))


# -- comparing


def difference(found: Any, expected: Any, tolerance: float = 1e-3) -> str:
    """How a value differs from what was expected; empty where it does not."""
    if isinstance(expected, np.ndarray) and isinstance(found, np.ndarray):
        are_texts = found.dtype.kind in "UO" and expected.dtype.kind in "UO"
        if found.dtype != expected.dtype and not are_texts:
            return f"{found.dtype} instead of {expected.dtype}"
        if found.shape != expected.shape:
            is_same = _is_same_nothing(found.shape, expected.shape)
            return "" if is_same else f"shape {found.shape} instead of {expected.shape}"
        if expected.dtype.kind in "OUSbiu":
            return "" if np.array_equal(found, expected) else "other elements"
        a, b = found.astype(np.float64), expected.astype(np.float64)
        tolerance = max(tolerance, {2: 0.02, 1: 0.3}.get(expected.dtype.itemsize, 0))
        if expected.dtype.name == "bfloat16":
            tolerance = max(tolerance, 0.1)
        finite = np.abs(b[np.isfinite(b)])
        scale = float(finite.max()) if finite.size else 0.0
        if np.allclose(a, b, tolerance, 1e-5 + tolerance * scale, equal_nan=True):
            return ""
        off = np.abs(a - b)
        off = off[~np.isnan(off)]
        return f"off by {off.max():.3g} of {scale:.3g}" if off.size else "NaN instead of a number, or the reverse"
    if isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            return f"{len(found)} elements instead of {len(expected)}"
        return next(filter(None, map(difference, found, expected)), "")
    reported = compare_values(found, expected)
    return reported.problem or ("" if reported.is_equal else "differs") if found is not expected else ""


def _is_same_nothing(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether a loop of no rounds stacked nothing: of what sizes that would have been, only a declaration says."""
    return len(a) == len(b) and a[:1] == b[:1] == (0,) and all(x == y or 0 in (x, y) for x, y in zip(a, b, strict=True))


def outputs_differ(found: Mapping[str, Any] | None, expected: Mapping[str, Any], why: str = "") -> str:
    if found is None:
        return f"does not run any more: {why}"
    if list(found) != list(expected):
        return f"outputs {list(found)} instead of {list(expected)}"
    for name, value in expected.items():
        if reported := difference(found[name], value):
            return f"output {name}: {reported}"
    return ""


def after_differs(case: Case, after: Model, *, checks: bool = True, interface: bool = True) -> str:
    """What is wrong with a transformed model: results, interface, problems, or that ONNX Runtime refuses it."""
    data = to_bytes(after, Storage(DataLayout.INLINE))
    for feeds, expected in case.runs:
        found, why = run(data, feeds)
        if reported := outputs_differ(found, expected, why):
            return f"{reported} (inputs {[np.shape(v) for v in feeds.values()]})"
    if interface and (reported := interface_differs(case.proto.graph, onnx.load_from_string(data).graph)):
        return reported
    if checks and (new := errors_of(ow.load(data)) - case.errors):
        return f"new problem: {min(new)}"
    return refused_by_ort(case, data)


def refused_by_ort(case: Case, data: bytes) -> str:
    """What ONNX Runtime says against a model, where it took the one before; not what it merely has no kernel for."""
    if not (case.is_loaded_by_ort and ORT.knows_versions_of(data)):
        return ""
    reported = ORT.run(data)
    has_kernels = isinstance(reported, dict) or not any(
        text in reported for text in ("NOT_IMPLEMENTED", "crashed", "support", ITS_OWN_CAST)
    )
    # The types that functions declare are lost where it inlines them, and those of casts before version 6 with them.
    is_inlined = isinstance(reported, str) and ITS_INLINED in reported and "type inference failed" in reported
    return (
        f"ONNX Runtime refuses it: {reported}" if isinstance(reported, str) and has_kernels and not is_inlined else ""
    )


#: It computes float16 in float between Casts of its own, which it writes as those of version 6 into older models, where
#: "to: string" is demanded, and then refuses them.
ITS_OWN_CAST = "InsertedPrecisionFreeCast"
#: How names begin that it gives to values of functions where it inlines them.
ITS_INLINED = "_inlfunc_"


def interface_differs(before: onnx.GraphProto, after: onnx.GraphProto) -> str:
    for what in ("input", "output"):
        pairs = [{v.name: v.type for v in getattr(g, what)} for g in (before, after)]
        added = {t.name for t in after.initializer} - {v.name for v in before.input}  # inputs too, before IR version 4
        given = {t.name for t in before.initializer} | added
        names = [[n for n in pair if n not in given or what == "output"] for pair in pairs]
        if names[0] != names[1]:
            return f"{what}s {names[1]} instead of {names[0]}"
        for name in names[0]:
            old, new = (pair[name].tensor_type for pair in pairs)
            if old.elem_type != new.elem_type or len(old.shape.dim) != len(new.shape.dim):
                return f"{what} {name} declared as another type"
            for a, b in zip(old.shape.dim, new.shape.dim, strict=True):
                if a.dim_value and b.dim_value and a.dim_value != b.dim_value:
                    return f"{what} {name} declared {b.dim_value} instead of {a.dim_value}"
    return ""


# -- child processes


def _call_helper(question: tuple[str, bytes]) -> bytes:
    module, _, name = question[0].partition(":")
    found: bytes = getattr(import_module(module), name)(question[1])
    return found


def _run_in_ort(question: tuple[bytes, Feeds | None]) -> dict[str, Any]:
    data, feeds = question
    session = make_session(data)
    if feeds is None:
        return {}
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def _optimised_by_ort(data: bytes) -> bytes:
    """The model as ONNX Runtime's optimiser writes it, with operators of com.microsoft in place of patterns."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimised.onnx"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(path)
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        return path.read_bytes()


class OnnxRuntime(Child):
    """ONNX Runtime, where it is installed."""

    def run(self, data: bytes, feeds: Feeds | None = None) -> dict[str, Any] | str:
        """The outputs, or why there are none; without feeds it is only loaded."""
        if find_spec("onnxruntime") is None:
            return "not installed"
        try:
            found: dict[str, Any] = self.ask((data, feeds))
        except ModelError as error:
            return error.title
        return found

    def knows_versions_of(self, data: bytes) -> bool:
        """Whether it knows the operator sets and the IR version of a model; conversions may ask for newer ones."""
        return not isinstance(self.run(smallest_model_like(onnx.load_from_string(data)).SerializeToString()), str)


ORT = OnnxRuntime(_run_in_ort)
OPTIMISER = Child(_optimised_by_ort)


@contextmanager
def one_helper_process() -> Iterator[None]:
    """Call onnx's C++ helpers in one process for all models instead of one for each call."""
    child = Child(_call_helper)

    @lru_cache(maxsize=32)  # checks of a model ask for the same types again
    def ask(function: str, payload: bytes) -> bytes:
        found: bytes = child.ask((function, payload))
        return found

    def call(function: str, payload: bytes, **_options: object) -> bytes:
        return ask(function, payload)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("model.inference.onnx_comparison", "model.sandbox"):
            patch.setattr(import_module(f"onnx_workbench.{name}"), "run_isolated", call)
        yield
    child.close()
    ORT.close()
    OPTIMISER.close()
