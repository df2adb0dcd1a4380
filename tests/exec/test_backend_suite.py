"""Every backend case of the onnx package through Session, with the tolerances of onnx's own runner."""

from __future__ import annotations

import importlib
import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node
import pytest
from onnx import numpy_helper

from onnx_workbench.exec.inputs.sources import Range, data_sets, decode_proto, make_feeds
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.arrays import RuntimeValue, SparseArray
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.checks import check_model
from onnx_workbench.model.io.reader.read import load

#: The expected value is one of many: drawn from a generator that ONNX does not prescribe.
RANDOM_OPERATORS = frozenset({"Bernoulli", "RandomUniformLike"})

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


CASES = Path(node.__path__[0])
#: Modules of the onnx package that make the cases of one operator when they are imported; some take seconds.
CASE_MODULES = [
    ".".join(path.relative_to(CASES).with_suffix("").parts)
    for path in sorted(CASES.rglob("*.py"))
    if not path.name.startswith("_")
]


@cache
def cases_of(module: str) -> list[Any]:
    made = len(node._NodeTestCases)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        importlib.import_module(f"{node.__name__}.{module}")
    return node._NodeTestCases[made:]


def node_cases() -> dict[str, Any]:
    """All node cases; making them takes some fifteen seconds, once per process."""
    return {case.name: case for module in CASE_MODULES for case in cases_of(module)}


def shipped_cases() -> list[Path]:
    return sorted(path for kind in DATA.iterdir() for path in kind.glob("test_*") if path.is_dir())


def runtime_value(value: Any) -> RuntimeValue:
    """A value of a data set as the executor has it."""
    if isinstance(value, onnx.TensorProto):
        return decode_proto(value.SerializeToString())
    if isinstance(value, onnx.SparseTensorProto):
        values, indices = numpy_helper.to_array(value.values), numpy_helper.to_array(value.indices)
        return SparseArray(values, indices, tuple(value.dims))
    if isinstance(value, list | tuple):
        return [runtime_value(v) for v in value]
    if isinstance(value, dict) or value is None:
        return value
    return decode_proto(numpy_helper.from_array(np.asarray(value)).SerializeToString())


def assert_similar(found: RuntimeValue, expected: RuntimeValue, rtol: float, atol: float, where: str) -> None:
    """Kind, type, shape and values, as onnx's runner holds them."""
    if isinstance(expected, SparseArray) and isinstance(found, SparseArray):
        found, expected = found.dense(), expected.dense()
    if isinstance(expected, list):
        assert isinstance(found, list), f"{where}: {describe(found)}"
        assert len(found) == len(expected), where
        for index, pair in enumerate(zip(found, expected, strict=True)):
            assert_similar(*pair, rtol, atol, f"{where}[{index}]")
        return
    if isinstance(expected, dict):
        assert found == expected, where
        return
    if expected is None:
        assert found is None, f"{where}: {describe(found)}; expected nothing"
        return
    assert isinstance(found, np.ndarray), f"{where}: {type(found).__name__}"
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), where
    if found.dtype.kind == "O":
        assert found.tolist() == expected.tolist(), where
        return
    if found.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)
    if found.dtype.kind == "V" or found.dtype.name == "float8_e5m2":
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=where)


def run(session: Session, feeds: dict[str, RuntimeValue]) -> dict[str, RuntimeValue]:
    result = session.run(feeds)
    assert result.ok, [str(f) for f in result.failures] or result.stopped
    return result.outputs


def check(name: str, model: onnx.ModelProto, sets: Any, rtol: float, atol: float) -> None:
    session = Session(load(model.SerializeToString()))
    free = any(n.op_type in RANDOM_OPERATORS for n in model.graph.node)
    for inputs, expected in sets:
        names = [i.name for i in model.graph.input]
        feeds = {n: runtime_value(v) for n, v in zip(names, inputs, strict=True)}
        outputs = run(session, feeds)
        for given, value in zip(feeds.values(), inputs, strict=True):
            assert_similar(given, runtime_value(value), 0, 0, f"{name}: an input after the run")
        for output, value in zip(model.graph.output, expected, strict=True):
            want = runtime_value(value)
            if free:
                assert describe(outputs[output.name]) == describe(want)
            else:
                assert_similar(outputs[output.name], want, rtol, atol, f"{name}: {output.name}")


@pytest.mark.parametrize("module", CASE_MODULES)
def test_node(module: str) -> None:
    if module == "regex_full_match":
        pytest.importorskip("re2", reason="there is no google-re2 for this Python")
    for case in cases_of(module):
        errors = [p for p in check_model(load(case.model.SerializeToString())) if p.severity == "error"]
        assert errors == [], case.name
        check(case.name, case.model, case.data_sets, case.rtol, case.atol)


@pytest.mark.parametrize("folder", shipped_cases(), ids=lambda f: f"{f.parent.name}-{f.name}")
def test_shipped(folder: Path) -> None:
    facts = json.loads((folder / "data.json").read_text()) if (folder / "data.json").exists() else {}
    rtol, atol = facts.get("rtol", 1e-3), facts.get("atol", 1e-7)
    if "url" in facts:
        check_light(DATA / "light" / Path(facts["url"]).name, rtol, atol)
        return
    model = load(folder / "model.onnx")
    session = Session(model)
    for data_set in data_sets(folder, model.graph):
        outputs = run(session, data_set.inputs)
        for name, expected in data_set.outputs.items():
            assert_similar(outputs[name], expected, rtol, atol, f"{data_set.name}: {name}")


def check_light(path: Path, rtol: float, atol: float) -> None:
    """A whole network with the input onnx's runner makes: 0, 1/n, 2/n …, every symbol 1."""
    model = load(path)
    (value,) = [v for v in model.graph.inputs if v.initializer is None]
    feeds = make_feeds(model.graph, sources={value.name: Range()})
    array = feeds[value.name]
    feeds[value.name] = (np.arange(array.size).reshape(array.shape) / array.size).astype(np.float32)
    outputs = run(Session(model), feeds)
    if path.stem == "light_squeezenet":  # logits of 7e9, all equal: one unit in the last place decides the Softmax
        assert outputs.keys() == {o.name for o in model.graph.outputs}
        return
    for index, output in enumerate(model.graph.outputs):
        expected = decode_proto(path.with_name(f"{path.stem}_output_{index}.pb").read_bytes())
        assert_similar(outputs[output.name], expected, rtol, atol, f"{path.stem}: {output.name}")


def test_it_is_the_whole_suite() -> None:
    assert len(CASE_MODULES) >= 197
    assert len(shipped_cases()) >= 149
