"""The Python API as users of the installed package have it: its names, what importing costs, examples, own kernels."""

from __future__ import annotations

import ast
import copy
import doctest
import inspect
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import onnx_workbench as ow
from onnx_workbench.model import extensions
from onnx_workbench.model.checks.problem import Problem
from tests.model import builders

REPOSITORY = Path(__file__).parents[2]
SAMPLE = REPOSITORY / "resources" / "sample" / "digits.onnx"

FUNCTIONS = [
    "check", "compare", "convert", "diff", "extract", "find", "infer", "load", "merge", "quantize", "reduce", "render",
    "rewrite", "save", "show", "simplify", "split", "statistics",
]  # fmt: skip


DECORATORS = ["action", "kernel", "node_check", "reader", "simplify_pass", "value_view"]  # of extensions


def parsed(text: str) -> ow.Model:
    return ow.load(builders.proto(text).SerializeToString())


def test_the_public_names_are_these():
    classes = ["Document", "Match", "Model", "ModelError", "Session", "Trainer"]
    assert ow.__all__ == [*classes, *sorted([*FUNCTIONS, "edits", *DECORATORS])]
    for name in ow.__all__:
        assert getattr(ow, name) is not None
    assert dir(ow) == sorted(ow.__all__)
    with pytest.raises(AttributeError, match="lod"):
        assert ow.lod


def python(code: str, folder: Path) -> str:
    """What a fresh Python prints that runs this in a folder."""
    search = os.pathsep.join(filter(None, (str(REPOSITORY / "packaging" / "launcher"), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=folder, env={**os.environ, "PYTHONPATH": search},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_loads_nothing_large(tmp_path):
    code = """
import sys, onnx_workbench as ow
heavy = ("numpy", "google.protobuf", "onnx", "PySide6", "networkx", "onnx_workbench.model", "onnx_workbench.exec")
print([name for name in heavy if name in sys.modules])
"""
    assert python(code, tmp_path) == "[]"


@pytest.mark.long
def test_it_works_beside_user_modules_named_like_its_folders(tmp_path):
    for name in ("model", "exec", "viewer", "resources", "api", "edits", "pictures"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the module of the user was imported')")
    code = f"""
import numpy as np, onnx_workbench as ow
from onnx_workbench.exec.worker.client import WorkerSession
if __name__ == "__main__":
    model = ow.load({str(SAMPLE)!r})
    image = np.zeros((1, 1, 28, 28), np.uint8)
    here = ow.Session(model).run({{"image": image}}).outputs["digit"]
    session = WorkerSession(model)
    there = session.run({{"image": image}}).outputs["digit"]
    session.close()
    print(here.tolist() == there.tolist(), ow.infer(model).written > 0)
"""
    assert python(code, tmp_path) == "True True"


@pytest.mark.long
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_says_what_it_does_and_its_example_holds(name, tmp_path, qapp):
    function = getattr(ow, name)
    text = inspect.getdoc(function)
    assert text.count("\n\n") >= 2, "a purpose, an explanation and an example"
    for parameter in inspect.signature(function).parameters:
        assert parameter == "progress" or parameter in text or parameter in ("model", "path", "source")
    names = {"sample": str(SAMPLE), "folder": tmp_path}
    (test,) = doctest.DocTestFinder(recurse=False).find(function, name, globs=names)
    assert test.examples
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert result.failed == 0


def test_the_example_of_the_trainer_holds():
    (test,) = doctest.DocTestFinder(recurse=False).find(ow.Trainer, "Trainer", globs={})
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.long
@pytest.mark.parametrize("name", DECORATORS)
def test_each_decorator_says_what_it_does_and_its_example_holds(name, tmp_path):
    decorator = getattr(ow, name)
    head = '<ir_version: 8, opset_import: ["" : 18]>'
    model = parsed(f"{head} g (float[2] x) => (float[2] y) {{ a = Neg(x) b = Neg(a) y = Relu(b) }}")
    names = {"sample": str(SAMPLE), "folder": tmp_path, "model": model}
    (test,) = doctest.DocTestFinder(recurse=False).find(decorator, name, globs=names)
    assert test.examples
    extension = extensions.Extension(name)
    extensions._loading.append(extension)
    try:
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    finally:
        extensions._loading.pop()
        extensions._take_back(extension)
    assert result.failed == 0
    assert len(extension.contents) == 1


INTERNAL = {"edit_message", "tensors", "function_attributes", "inlining"}
SHARED = {"fit_type", "import_domains"}  # by several edits


def test_edits_has_every_edit_function():
    expected = set()
    for path in (REPOSITORY / "model" / "edits").glob("*.py"):
        if path.stem in INTERNAL:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if (
                isinstance(node, ast.FunctionDef)
                and not node.name.startswith("_")
                and node.args.args
                and node.args.args[0].arg == "edit"
            ):
                expected.add(node.name)
    assert set(ow.edits.__all__) == expected - SHARED
    assert all(callable(getattr(ow.edits, name)) for name in ow.edits.__all__)


def test_an_edit_is_an_entry_of_the_history():
    document = ow.Document(ow.load(SAMPLE))
    image = document.model.graph.inputs[0]
    builders.one_edit(document, ow.edits.rename_value, image, "picture")
    assert image.name == "picture"
    document.undo()
    assert image.name == "image"


def test_a_session_runs_kernels_of_the_user():
    @ow.kernel("Thrice", domain="example.ops", since=1)
    def thrice(x, *, plus=0.0):
        return x * 3 + np.float32(plus)

    model = parsed(
        '<ir_version: 8, opset_import: ["" : 18, "example.ops" : 1]> g (float[2] x) => (float[2] y)'
        " { hidden = example.ops.Thrice <plus = 1.0> (x) y = Neg(hidden) }"
    )
    result = ow.Session(model).run({"x": np.array([1, 2], np.float32)})
    assert result.values["hidden"].tolist() == [4, 7]
    assert result.outputs["y"].tolist() == [-4, -7]
    assert result.missing_outputs == {}


def test_changes_to_a_document_can_be_undone():
    document = ow.Document(ow.load(SAMPLE))
    before = len(document.model.graph.nodes)
    relu = next(node for node in document.model.graph.nodes if node.op_type == "Relu")
    builders.one_edit(document, ow.edits.change_operator, relu, "Identity")
    assert ow.simplify(document, checks=1).is_applied
    assert len(document.model.graph.nodes) < before
    while document.undo():
        pass
    assert len(document.model.graph.nodes) == before


def test_what_does_not_agree_is_found_and_reported():
    model, other = ow.load(SAMPLE), ow.load(SAMPLE)
    relu = next(node for node in other.graph.nodes if node.op_type == "Relu")
    builders.one_edit(ow.Document(other), ow.edits.change_operator, relu, "Sigmoid")
    comparison = ow.compare(model, other)
    assert not comparison.agrees
    assert comparison.first_divergence.name == relu.outputs[0].name
    assert comparison.missing == ()


def test_a_model_is_compared_with_a_file_of_values(tmp_path):
    model = ow.load(SAMPLE)
    image = np.full((2, 1, 28, 28), 7, np.uint8)
    result = ow.Session(model).run({"image": image})
    np.savez(tmp_path / "right.npz", image=image, digit=result.outputs["digit"])
    np.savez(tmp_path / "wrong.npz", image=image, digit=result.outputs["digit"] + 1)
    assert ow.compare(model, tmp_path / "right.npz").agrees
    comparison = ow.compare(model, tmp_path / "wrong.npz")
    assert [row.name for row in comparison.values] == ["digit"]
    assert not comparison.agrees


def test_values_that_could_not_be_compared_are_not_taken_for_equal():
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Add(x, lost) }'
    whole = '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'
    comparison = ow.compare(parsed(text), parsed(whole))
    assert not comparison.agrees
    assert any("y is missing" in line and "nothing defines 'lost'" in line for line in comparison.missing)


def test_a_truncated_file_is_refused_unless_salvaged(tmp_path):
    path = tmp_path / "part.onnx"
    path.write_bytes(SAMPLE.read_bytes()[:9000])
    with pytest.raises(ow.ModelError, match="incomplete") as refused:
        ow.load(path)
    assert "salvage" in refused.value.detail
    model = ow.load(path, salvage=True)
    assert model.source.truncation
    assert ow.check(model)[0] == Problem("reading", "error", model.source.truncation, model)


def test_results_are_shown_in_one_line_by_a_notebook():
    model = ow.load(SAMPLE)
    result = ow.Session(model).run({"image": np.zeros((1, 1, 28, 28), np.uint8)})
    for shown in (
        model,
        ow.Document(model),
        result,
        ow.statistics(model),
        ow.compare(model, model),
        ow.diff(model, model),
    ):
        assert len(repr(shown)) < 100
    assert "'digit'" in repr(result.values)


def test_a_page_shows_the_values_of_a_run(qapp):
    model = ow.load(SAMPLE)
    result = ow.Session(model).run({"image": np.zeros((1, 1, 28, 28), np.uint8)})
    page = ow.show(model, values=result.values)
    assert '"hasRun":true' in page.html
    with pytest.raises(ow.ModelError, match="values has no values of this model"):
        ow.show(model, values={"other": np.zeros(1)})


TYPED = '<ir_version: 8, opset_import: ["" : 18]>'


def test_an_output_gets_the_type_that_is_inferred(tmp_path):
    model = parsed(f"{TYPED} g (float[N,3] x) => (float[N,3] y) {{ a = Transpose(x) b = Neg(a) y = Transpose(b) }}")
    with ow.Document(model).edit("Add outputs") as edit:
        ow.edits.add_output(edit, model.graph, model.graph.nodes.first.outputs[0])
        ow.edits.add_outputs(edit, model.graph, [model.graph.nodes[1].outputs[0]])
    assert [str(value.type) for value in model.graph.outputs] == ["float[N,3]", "float[3,N]", "float[3,N]"]
    ow.save(model, tmp_path / "model.onnx")
    onnx.checker.check_model(tmp_path / "model.onnx", full_check=True)


def test_an_array_is_a_tensor_where_one_is_expected():
    nodes = "k = Constant<value_float = 1.0>() a = Add(x, w) y = Mul(a, k)"
    model = parsed(f"{TYPED} g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ {nodes} }}")
    document, new = ow.Document(model), np.array([5, 6], np.float32)
    with document.edit("Set tensors") as edit:
        ow.edits.set_tensor(edit, model.graph.initializers[0], new)
        ow.edits.set_constant_tensor(edit, model.graph.nodes.first, np.float32(2))
        added = ow.edits.add_initializer(edit, model.graph, [["a", "b"]], "texts")
        with pytest.raises(TypeError, match="is no tensor"):
            ow.edits.set_tensor(edit, model.graph.initializers[0], object())
    new[:] = 0  # it was copied
    assert ow.Session(model).run({"x": np.zeros(2, np.float32)}).outputs["y"].tolist() == [10, 12]
    assert str(added.initializer.type) == "string[1,2]"


PARTS = {
    "an initializer": ("float[N] y, float[2] c", "<float[2] c = {1, 2}>"),
    "an input": ("float[N] y, float[N] x", ""),
    "a used initializer": ("float[N] y, float[1] k", ""),
    "both": ("float[2] c, float[N] x, float[N] y", "<float[2] c = {1, 2}>"),
}


@pytest.mark.parametrize("case", PARTS)
def test_a_split_keeps_outputs_that_no_node_computes(case):
    outputs, constants = PARTS[case]
    given = constants.strip("<>")
    text = f"{TYPED} g (float[N] x) => ({outputs}) <float[1] k = {{3}}{',' if given else ''} {given}>"
    model = parsed(text + " { a = Abs(x) b = Add(a, k) y = Neg(b) }")
    first, second = ow.split(model, at=["a"])
    assert [value.name for value in second.graph.outputs] == [value.name for value in model.graph.outputs]
    x = np.array([1, -2], np.float32)
    a = ow.Session(first).run({"x": x}).outputs["a"]
    feeds = {value.name: {"x": x, "a": a}[value.name] for value in second.graph.inputs}
    found, expected = ow.Session(second).run(feeds).outputs, ow.Session(model).run({"x": x}).outputs
    assert {name: array.tolist() for name, array in found.items()} == {n: v.tolist() for n, v in expected.items()}


MERGED = "g (float[N,3] image) => (float[N,3] scores) { scores = Neg(image) }"


@pytest.mark.parametrize(
    ("kind", "refused", "fits"),
    [
        ("double[N,3]", "scores is float[N,3]; logits takes double[N,3]. A Cast would convert it", True),
        ("double[N,7]", "scores is float[N,3]; logits takes double[N,7].", False),
        ("float[N,7]", "scores is float[N,3]; logits takes float[N,7].", False),
        ("float[3]", "scores is float[N,3]; logits takes float[3].", False),
        ("seq(float[3])", "takes seq(float[3]).", False),
    ],
)
def test_a_merge_refuses_types_that_do_not_fit_or_casts(kind, refused, fits):
    def pair():
        return parsed(f"{TYPED} {MERGED}"), parsed(
            f"{TYPED} h ({kind} logits) => ({kind} y) {{ y = Identity(logits) }}"
        )

    model, other = pair()
    before = ow.diff(*pair()[:1], model).differences
    with pytest.raises(ow.ModelError, match="scores cannot feed logits") as error:
        ow.merge(model, other, connect={"logits": "scores"})
    assert refused in error.value.detail
    assert not before
    if fits:
        ow.merge(model, other, connect={"logits": "scores"}, cast=True)
        assert [node.op_type for node in model.graph.nodes] == ["Neg", "Cast", "Identity"]
        assert not [problem for problem in ow.check(model) if problem.severity == "error"]
        assert ow.Session(model).run({"image": np.ones((1, 3), np.float32)}).outputs["y"].dtype == np.float64
    else:
        with pytest.raises(ow.ModelError, match="cannot feed"):
            ow.merge(model, other, connect={"logits": "scores"}, cast=True)


def test_a_merge_compares_inferred_types():
    model = parsed(f"{TYPED} g (float[N,3] x) => (int64[2] y) {{ a = Shape(x) y = Neg(a) }}")
    other = parsed(f"{TYPED} h (float[2] sizes) => (float[2] z) {{ z = Exp(sizes) }}")
    with pytest.raises(ow.ModelError, match="a cannot feed sizes"):
        ow.merge(model, other, connect={"sizes": "a"})


RELU = f"{TYPED} g (float[N,4] x) => (float[N,4] y) {{ a = Relu(x) y = Neg(a) }}"
WRONG = {
    "free": (TypeError, "free is the string 'batch'", lambda m: ow.convert(m, free="batch")),
    "keep": (TypeError, "keep is the string", lambda m: ow.convert(m, precision="float16", keep="Relu")),
    "functions": (ow.ModelError, "'inlin' is unknown as functions", lambda m: ow.convert(m, functions="inlin")),
    "rename": (ow.ModelError, "'node' is unknown as rename", lambda m: ow.convert(m, rename=["node"])),
    "precision": (ow.ModelError, "'float8' is unknown as precision", lambda m: ow.convert(m, precision="float8")),
    "nodes": (TypeError, "expected Node objects", lambda m: ow.convert(m, precision="float16", nodes=["Relu"])),
    "foreign nodes": (ow.ModelError, "no node of this model", lambda m: ow.convert(m, nodes=parsed(RELU).graph.nodes)),
    "only": (TypeError, "only is the string", lambda m: ow.simplify(m, only="fold")),
    "at": (TypeError, "at is the string", lambda m: ow.split(m, at="a")),
    "outputs": (TypeError, "outputs is the string", lambda m: ow.extract(m, outputs="a")),
    "load": (TypeError, "None is not a model", lambda _m: ow.load(None)),
    "check": (TypeError, "7 is not a model", lambda _m: ow.check(7)),
    "changing a path": (TypeError, "the changes would be lost", lambda _m: ow.convert("model.onnx", opset=21)),
    "external": (ow.ModelError, "'there' is unknown as external", lambda m: ow.save(m, "x.onnx", external="there")),
    "nodes to infer": (TypeError, "expected Node objects", lambda m: ow.infer(m, nodes=["Relu"])),
    "nodes to simplify": (TypeError, "expected Node objects", lambda m: ow.simplify(m, nodes=["Relu"])),
    "session": (TypeError, "7 is not a model", lambda _m: ow.Session(7)),
    "no memory": (ValueError, "memory_limit is 0", lambda m: ow.Session(m).run({}, memory_limit=0)),
    "no memory at all": (ValueError, "memory_limit is -1", lambda m: ow.Session(m, memory_limit=-1)),
    "no tensor": (ValueError, "max_tensor is 0", lambda m: ow.Session(m).run({}, max_tensor=0)),
    "memory as text": (TypeError, "memory_limit is '1G'", lambda m: ow.Session(m).run({}, memory_limit="1G")),
    "option": (TypeError, "no option 'max_tensors'", lambda m: ow.Session(m).run({}, max_tensors=1)),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_an_error_that_says_what_is_expected(case):
    """A text was taken letter by letter, and names that do not exist did nothing."""
    kind, message, call = WRONG[case]
    model = parsed(RELU)
    before = ow.diff(model, parsed(RELU)).differences
    with pytest.raises(kind, match=message):
        call(model)
    assert not before
    assert not ow.diff(model, parsed(RELU)).differences


def test_a_path_and_a_proto_are_taken_where_a_model_is_read(tmp_path):
    proto = builders.proto(RELU)
    onnx.save(proto, tmp_path / "model.onnx")
    for given in (proto, tmp_path / "model.onnx", str(tmp_path / "model.onnx"), proto.SerializeToString()):
        assert [problem for problem in ow.check(given) if problem.severity == "error"] == []
        assert ow.statistics(given).total().parameters == 0
        assert not ow.diff(given, proto)
        assert ow.Session(given).run({"x": np.ones((1, 4), np.float32)}).ok
    assert len(ow.load(proto).graph.nodes) == 2


def test_a_finished_edit_changes_nothing():
    model = parsed(RELU)
    document = ow.Document(model)
    with document.edit("Nothing") as edit:
        pass
    with pytest.raises(ow.ModelError, match="This edit is finished"):
        ow.edits.rename_node(edit, model.graph.nodes.first, "changed")
    assert model.graph.nodes.first.name != "changed"


def test_a_model_has_one_document():
    model = parsed(RELU)
    document = ow.Document(model)
    with pytest.raises(ow.ModelError, match="has a document already"):
        ow.Document(model)
    ow.convert(model, rename=["nodes"])  # goes into the history of the document
    assert [entry.title for entry in document.entries()][-1] == "Convert"
    document.undo()
    assert not ow.diff(model, parsed(RELU)).differences
    del document
    ow.Document(model)


WEIGHTS = """<ir_version: 10, opset_import: ["" : 18]> g (float[N,4] x) => (float[N,4] y)
<float[4] w = {1, 2, 3, 4}> { a = Mul(x, w) b = Relu(a) y = Log(b) }"""


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_a_model_and_its_results_can_be_copied_and_pickled(again, tmp_path):
    proto = builders.proto(WEIGHTS)
    onnx.save(proto, tmp_path / "model.onnx", save_as_external_data=True, location="data", size_threshold=0)
    model = ow.load(tmp_path / "model.onnx")
    feeds = {"x": np.array([[-1, 2, 3, 4]], np.float32)}
    result = ow.Session(model).run(feeds)

    other = again(model)
    assert not ow.diff(model, other)
    builders.one_edit(ow.Document(other), ow.edits.rename_value, other.graph.inputs[0], "z")
    assert model.graph.inputs[0].name == "x"

    same = again(result)
    assert same.ok
    assert {name: array.tolist() for name, array in same.outputs.items()} == {
        name: array.tolist() for name, array in result.outputs.items()
    }
    assert list(same.values) == list(result.values)
    assert [(node.title, node.operator, node.state) for node in same.nodes] == [
        (node.title, node.operator, node.state) for node in result.nodes
    ]
    assert again(ow.compare(model, other, inputs=feeds)).values


def test_a_node_is_not_copied_without_its_model():
    model = parsed(RELU)
    for part in (model.graph, model.graph.nodes.first, model.graph.inputs[0]):
        for again in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="is part of a model"):
                again(part)
