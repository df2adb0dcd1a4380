"""Extensions: the example in the repository runs everywhere, and what is wrong with one is told as its own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import onnx_workbench as ow
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.model import extensions, schemas
from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.cli.main import main

EXAMPLE = Path(__file__).parents[2] / "packaging" / "examples" / "my_ops.py"

MODEL = """
<ir_version: 8, opset_import: ["" : 18, "my.ops" : 2]>
net (float[2, 6] x) => (float[2, 3] y, float[2, 3] z)
{
    [double] d = my.ops.Twice <plus = 1.0> (x)
    [halves] y, z = my.ops.SplitHalf (d)
}
"""


@pytest.fixture(autouse=True)
def _unload():
    yield
    for extension in extensions.loaded():
        extensions.unload(extension.source)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx.parser.parse_model(MODEL).SerializeToString())
    return path


@pytest.fixture
def written(tmp_path):
    def write(text, name="ops.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


X = np.arange(12, dtype=np.float32).reshape(2, 6)


def test_without_it_the_operator_is_not_known(model, capsys):
    assert main(["run", str(model)]) == 1
    assert "no kernel for my.ops::Twice" in capsys.readouterr().err
    assert schemas.find("Twice", 2, "my.ops") is None


def test_it_runs_and_checks_on_the_command_line(model, tmp_path, capsys):
    np.savez(tmp_path / "in.npz", x=X)
    arguments = ["--inputs", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz"), "--load", str(EXAMPLE)]
    assert main(["run", str(model), *arguments]) == 0
    with np.load(tmp_path / "out.npz") as values:
        assert np.array_equal(values["y"], (X * 2 + 1)[:, :3])
        assert np.array_equal(values["z"], (X * 2 + 1)[:, 3:])
    capsys.readouterr()
    assert main(["check", str(model), "--load", str(EXAMPLE), "--json"]) == 0
    problems = json.loads(capsys.readouterr().out)
    assert not [problem for problem in problems if problem["severity"] == "error"]


def test_its_rules_say_types_of_values(model):
    extensions.load(EXAMPLE)
    loaded = ow.load(model)
    inferred = ow.infer(loaded, write=False)
    types = {value.name: str(found) for value, found in inferred.types.items()}
    assert types["d"] == "float[2,6]"
    assert types["y"] == types["z"] == "float[2,3]"


def test_the_signature_is_checked_and_documented(written):
    extensions.load(EXAMPLE)
    schema = schemas.find("Twice", 2, "my.ops")
    assert (schema.min_inputs, schema.max_inputs, schema.max_outputs) == (1, 1, 1)
    assert schema.attributes["plus"].default.value == 0.0
    assert schema.doc == "Twice x, plus a number."
    assert schema.origin == "my_ops.py"
    wrong = MODEL.replace("(x)\n", "(x, x)\n", 1).replace("Twice <plus = 1.0>", "Twice <times = 3>")
    messages = [p.message for p in ow.check(ow.load(onnx.parser.parse_model(wrong).SerializeToString()))]
    assert any("times" in message for message in messages)
    assert any("input" in message for message in messages)
    assert {s.name for s in schemas.operators({"": 18, "my.ops": 2}) if s.domain == "my.ops"} == {"Twice", "SplitHalf"}


def test_the_worker_loads_what_the_program_has_loaded(model):
    loaded = ow.load(model)
    session = WorkerSession(loaded)
    try:
        assert "y" in session.run({"x": X}).missing_outputs
        extensions.load(EXAMPLE)
        result = session.run({"x": X})
        assert np.array_equal(result.outputs["y"], (X * 2 + 1)[:, :3])
        extensions.unload(str(EXAMPLE))
        assert "y" in session.run({"x": X}).missing_outputs
    finally:
        session.close()


def test_unloading_takes_everything_back(model):
    extensions.load(EXAMPLE)
    extensions.unload(str(EXAMPLE))
    assert schemas.find("Twice", 2, "my.ops") is None
    assert "y" in ow.Session(ow.load(model)).run({"x": X}).missing_outputs
    extensions.load(EXAMPLE)
    assert ow.Session(ow.load(model)).run({"x": X}).missing_outputs == {}


def test_its_rule_finds_problems(written):
    extensions.load(EXAMPLE)
    unnamed = ow.load(onnx.parser.parse_model(MODEL.replace("[halves] ", "")).SerializeToString())
    (problem,) = [problem for problem in ow.check(unnamed) if problem.rule == "my-ops-name"]
    assert (problem.severity, problem.message) == ("warning", "SplitHalf has no name")
    assert problem.place.op_type == "SplitHalf"
    extensions.unload(str(EXAMPLE))
    assert not [problem for problem in ow.check(unnamed) if problem.rule == "my-ops-name"]


def test_a_mistake_in_a_rule_is_a_problem_of_its_file(written, model):
    text = """
from onnx_workbench import node_check

@node_check("bad")
def bad(node):
    yield "first"
    raise OSError("gone")
"""
    extensions.load(written(text))
    found = [problem for problem in ow.check(ow.load(model)) if problem.rule == "bad" and problem.detail]
    assert len(found) == 2  # one for each node
    assert all("ops.py, line 7: OSError: gone" in problem.detail for problem in found)


BROKEN = """
from onnx_workbench import kernel

@kernel("Twice", domain="my.ops")
def twice(x):
    return x

def setting_up():
    raise {error}

setting_up()
"""


@pytest.mark.parametrize("error", ["RuntimeError('no luck')", "SystemExit(3)", "ImportError('no torch')"])
def test_a_file_that_fails_is_named_with_its_traceback_and_leaves_nothing(written, model, capsys, error):
    path = written(BROKEN.format(error=error))
    assert main(["check", str(model), "--load", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: The extension ops.py cannot be loaded")
    assert "in setting_up" in told
    assert error.partition("(")[0] in told
    assert "importlib" not in told
    assert schemas.find("Twice", 1, "my.ops") is None
    assert extensions.loaded() == []


def test_a_file_that_is_not_there_is_told(model, capsys, tmp_path):
    for name in ("missing.py", "data.txt"):
        if name == "data.txt":
            (tmp_path / name).write_text("x = 1")
        assert main(["check", str(model), "--load", str(tmp_path / name)]) == 2
        assert f"The extension {name} cannot be loaded" in capsys.readouterr().err
    with pytest.raises(ModelError, match="no installed extension nothing"):
        extensions.load("entry:nothing")


def test_a_mistake_in_a_kernel_is_told_as_that_of_its_file(written, model):
    text = BROKEN.replace("return x", "return x['no such key']").partition("def setting_up")[0]
    extensions.load(written(text))
    result = ow.Session(ow.load(model)).run({"x": X})
    assert "ops.py, line 6: IndexError" in result.missing_outputs["y"]


def test_a_mistake_in_a_rule_leaves_types_unknown(written, model):
    text = """
from onnx_workbench import kernel

def rule(call):
    raise OSError

@kernel("Twice", domain="my.ops", infer=rule)
def twice(x, *, plus=0.0):
    return x
"""
    extensions.load(written(text))
    inferred = ow.infer(ow.load(model), write=False)
    assert not inferred.problem
    assert "d" not in {value.name for value in inferred.types}


def test_an_operator_of_the_program_is_not_replaced(written):
    text = "from onnx_workbench import kernel\n@kernel('Relu', domain='', since=1)\ndef relu(x):\n    return x\n"
    with pytest.raises(ModelError, match="registered twice"):
        extensions.load(written(text))
    session = ow.Session(ow.load(onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 1]> g (float[1] x) => (float[1] y) { y = Relu(x) }'
    ).SerializeToString()))  # fmt: skip
    assert session.run({"x": np.array([-1], np.float32)}).outputs["y"].tolist() == [0]


def test_a_kernel_may_be_defined_again_as_in_a_notebook():
    for factor in (2, 3):

        @ow.kernel("Times", domain="my.notebook")
        def times(x, _factor=factor):
            return x * _factor

    model = ow.load(onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "my.notebook" : 1]> g (float[1] x) => (float[1] y)'
        " { y = my.notebook.Times(x) }"
    ).SerializeToString())  # fmt: skip
    assert ow.Session(model).run({"x": np.array([1], np.float32)}).outputs["y"].tolist() == [3]


def test_the_others_are_loaded_where_one_cannot_be(tmp_path):
    errors = extensions.load_all([str(tmp_path / "gone.py"), str(EXAMPLE)])
    assert [error.title for error in errors] == ["The extension gone.py cannot be loaded"]
    assert [extension.name for extension in extensions.loaded()] == ["my_ops.py"]


def test_an_installed_package_offers_one_that_nothing_imports_unasked(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "my_package-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[onnx_workbench.extensions]\nmine = my_package_of_ops:register\n")
    (tmp_path / "my_package_of_ops.py").write_text(
        "from onnx_workbench import kernel\nprint('imported')\n"
        "def register():\n    kernel('Mine', domain='my.package')(lambda x: x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "entry:mine" in extensions.entry_points()
    assert capsys.readouterr().out == ""
    extension = extensions.load("entry:mine")
    assert extension.name == "mine"
    assert extension.contents == [("operator", "my.package::Mine")]
    extensions.unload("entry:mine")
    assert schemas.find("Mine", 1, "my.package") is None
