"""Extensions: the example in the repository runs everywhere, and what is wrong with one is reported as its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import onnx_workbench as ow
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.model import extensions, schemas
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.custom import suffixes
from onnx_workbench.model.simplify.custom import custom_passes
from onnx_workbench.viewer.cli.main import main
from onnx_workbench.viewer.extensions.custom_actions import custom_actions
from onnx_workbench.viewer.extensions.custom_views import Table, show_value, titles
from tests.model import builders

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
    return builders.model_file(tmp_path / "net.onnx", MODEL)


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
    extensions.unload(str(EXAMPLE))  # the process of inference follows
    assert {value.name for value in ow.infer(loaded, write=False).types} == {"x"}


def test_the_signature_is_checked_and_documented(written):
    extensions.load(EXAMPLE)
    schema = schemas.find("Twice", 2, "my.ops")
    assert (schema.min_inputs, schema.max_inputs, schema.max_outputs) == (1, 1, 1)
    assert schema.attributes["plus"].default.value == 0.0
    assert schema.doc == "Twice x, plus a number."
    assert schema.origin == "my_ops.py"
    wrong = MODEL.replace("(x)\n", "(x, x)\n", 1).replace("Twice <plus = 1.0>", "Twice <times = 3>")
    messages = [p.message for p in ow.check(ow.load(builders.proto(wrong).SerializeToString()))]
    assert any("times" in message for message in messages)
    assert any("input" in message for message in messages)
    assert {s.name for s in schemas.operators({"": 18, "my.ops": 2}) if s.domain == "my.ops"} == {"Twice", "SplitHalf"}


@pytest.mark.long
def test_the_worker_loads_what_the_program_has_loaded(written, model):
    path = str(written(EXAMPLE.read_text(encoding="utf-8")))
    session = WorkerSession(ow.load(model))
    try:
        extensions.load(path)
        assert np.array_equal(session.run({"x": X}).outputs["y"], (X * 2 + 1)[:, :3])
        extensions.unload(path)
        written(EXAMPLE.read_text(encoding="utf-8").replace("return x * 2 +", "return x * 20 +"))
        extensions.load(path)  # as it is now
        assert np.array_equal(session.run({"x": X}).outputs["y"], (X * 20 + 1)[:, :3])
        extensions.unload(path)
        assert "y" in session.run({"x": X}).missing_outputs
    finally:
        session.close()


def test_unloading_takes_everything_back(model):
    extension = extensions.load(EXAMPLE)
    assert {kind for kind, _ in extension.contents} == {"operator", "check", "pass", "action", "reader", "view"}
    extensions.unload(str(EXAMPLE))
    assert custom_passes() == ()
    assert custom_actions() == ()
    assert suffixes() == []
    assert titles() == ()
    assert schemas.find("Twice", 2, "my.ops") is None
    assert "y" in ow.Session(ow.load(model)).run({"x": X}).missing_outputs
    extensions.load(EXAMPLE)
    assert ow.Session(ow.load(model)).run({"x": X}).missing_outputs == {}


def test_its_rule_finds_problems(written):
    extensions.load(EXAMPLE)
    unnamed = ow.load(builders.proto(MODEL.replace("[halves] ", "")).SerializeToString())
    (problem,) = [problem for problem in ow.check(unnamed) if problem.rule == "my-ops-name"]
    assert (problem.severity, problem.message) == ("warning", "SplitHalf has no name")
    assert problem.place.op_type == "SplitHalf"
    extensions.unload(str(EXAMPLE))
    assert not [problem for problem in ow.check(unnamed) if problem.rule == "my-ops-name"]


@pytest.mark.parametrize(
    ("error", "reported"), [("OSError('gone')", "OSError: gone"), ("SystemExit(3)", "SystemExit: 3")]
)
def test_a_mistake_in_a_rule_is_a_problem_of_its_file(written, model, error, reported):
    text = """
from onnx_workbench import node_check

@node_check("bad")
def bad(node):
    yield "first"
    raise {error}
"""
    extensions.load(written(text.format(error=error)))
    found = [problem for problem in ow.check(ow.load(model)) if problem.rule == "bad" and problem.detail]
    assert len(found) == 2  # one for each node
    assert all(f"ops.py, line 7: {reported}" in problem.detail for problem in found)


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
def test_a_failing_file_is_named_with_traceback_and_undone(written, model, capsys, error):
    path = written(BROKEN.format(error=error))
    assert main(["check", str(model), "--load", str(path)]) == 2
    reported = capsys.readouterr().err
    assert reported.startswith("error: The extension ops.py cannot be loaded")
    assert "in setting_up" in reported
    assert error.partition("(")[0] in reported
    assert "importlib" not in reported
    assert schemas.find("Twice", 1, "my.ops") is None
    assert extensions.loaded() == []


def test_a_file_that_is_not_there_is_reported(model, capsys, tmp_path):
    for name in ("missing.py", "data.txt"):
        if name == "data.txt":
            (tmp_path / name).write_text("x = 1")
        assert main(["check", str(model), "--load", str(tmp_path / name)]) == 2
        assert f"The extension {name} cannot be loaded" in capsys.readouterr().err
    with pytest.raises(ModelError, match="no installed extension nothing"):
        extensions.load("entry:nothing")


@pytest.mark.parametrize(
    ("mistake", "reported"), [("return x['no such key']", "IndexError"), ("exit(3)", "SystemExit: 3")]
)
def test_a_mistake_in_a_kernel_is_reported_as_that_of_its_file(written, model, mistake, reported):
    text = BROKEN.replace("return x", mistake).partition("def setting_up")[0]
    extensions.load(written(text))
    result = ow.Session(ow.load(model)).run({"x": X})
    assert f"ops.py, line 6: {reported}" in result.missing_outputs["y"]


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
    assert "d" not in {value.name for value in inferred.types}


def test_an_operator_of_the_program_is_not_replaced(written):
    text = "from onnx_workbench import kernel\n@kernel('Relu', domain='', since=1)\ndef relu(x):\n    return x\n"
    with pytest.raises(ModelError, match="registered twice"):
        extensions.load(written(text))
    session = ow.Session(ow.load(builders.proto(
        '<ir_version: 8, opset_import: ["" : 1]> g (float[1] x) => (float[1] y) { y = Relu(x) }'
    ).SerializeToString()))  # fmt: skip
    assert session.run({"x": np.array([-1], np.float32)}).outputs["y"].tolist() == [0]


def test_a_kernel_may_be_defined_again_as_in_a_notebook():
    for factor in (2, 3):

        @ow.kernel("Times", domain="my.notebook")
        def times(x, _factor=factor):
            return x * _factor

    model = ow.load(builders.proto(
        '<ir_version: 8, opset_import: ["" : 18, "my.notebook" : 1]> g (float[1] x) => (float[1] y)'
        " { y = my.notebook.Times(x) }"
    ).SerializeToString())  # fmt: skip
    assert ow.Session(model).run({"x": np.array([1], np.float32)}).outputs["y"].tolist() == [3]


def test_the_others_are_loaded_where_one_cannot_be(tmp_path):
    errors = extensions.load_all([str(tmp_path / "gone.py"), str(EXAMPLE)])
    assert [error.title for error in errors] == ["The extension gone.py cannot be loaded"]
    assert [extension.name for extension in extensions.loaded()] == ["my_ops.py"]


def test_an_installed_package_offers_one_not_imported_unasked(tmp_path, monkeypatch, capsys):
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


def parsed(text):
    return ow.load(builders.proto(text).SerializeToString())


PLAIN = MODEL.replace(" <plus = 1.0>", "")


def operators_of(model):
    return [node.op_type for node in model.graph.nodes]


@pytest.mark.long
def test_its_pass_runs_with_the_others_and_only_where_it_is_wanted():
    extensions.load(EXAMPLE)
    model = parsed(PLAIN)
    simplified = ow.simplify(model, skip=["twice_to_add"])
    assert operators_of(model) == ["Twice", "SplitHalf"]
    split = [node for node in model.graph.nodes if node.op_type == "SplitHalf"]
    assert ow.simplify(model, nodes=split).report.applied == {}
    simplified = ow.simplify(model)
    assert simplified.is_applied
    assert simplified.report.applied == {"twice_to_add": 1}
    assert operators_of(model) == ["Add", "SplitHalf"]
    assert np.array_equal(ow.Session(model).run({"x": X}).outputs["y"], (X * 2)[:, :3])
    model = parsed(MODEL)
    assert ow.simplify(model).report.applied == {}


@pytest.mark.long
def test_its_pass_runs_on_the_command_line(tmp_path, capsys):
    path, out = tmp_path / "net.onnx", tmp_path / "out.onnx"
    builders.model_file(path, PLAIN)
    arguments = ["simplify", str(path), "-o", str(out), "--only", "twice_to_add"]
    assert main(arguments) == 2
    assert "There is no pass 'twice_to_add'" in capsys.readouterr().err
    assert main([*arguments, "--load", str(EXAMPLE)]) == 0
    assert "1  Twice to add  (twice_to_add)" in capsys.readouterr().out
    assert operators_of(ow.load(out)) == ["Add", "SplitHalf"]


def test_its_pass_is_in_the_help_of_the_command(capsys):
    with pytest.raises(SystemExit):
        main(["simplify", "--help"])
    assert "twice_to_add" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["simplify", "--load", str(EXAMPLE), "--help"])
    assert "twice_to_add: Twice to add – " in capsys.readouterr().out


WRONG_PASS = """
from onnx_workbench import Match, simplify_pass

def negate(rewriter, node):
    rewriter.replace_node(node, "Neg", node.inputs)

@simplify_pass("wrong", title="Wrong")
def wrong(context):
    for node in context.nodes("Relu"):
        yield Match("it becomes Neg", (node,), lambda rewriter, node=node: negate(rewriter, node))

@simplify_pass("raises", default=False)
def raises(context):
    for node in context.nodes("Relu"):
        yield Match("never", (node,), lambda rewriter: rewriter.no_such_thing)

@simplify_pass("stops", default=False)
def stops(context):
    raise SystemExit(3)

@simplify_pass("none", default=False)
def none(context):
    return None

@simplify_pass("texts", default=False)
def texts(context):
    yield "a text"
"""
RELU = '<ir_version: 8, opset_import: ["" : 18]> g (float[4] x) => (float[4] y) { y = Relu(x) }'


def test_a_wrong_pass_changes_nothing_and_names_its_file(written):
    extensions.load(written(WRONG_PASS))
    model = parsed(RELU)
    simplified = ow.simplify(model)
    assert simplified.report.applied == {"wrong": 1}
    assert not simplified.is_applied
    assert operators_of(model) == ["Relu"]
    report = ow.simplify(model, only=["raises", "stops", "none", "texts"]).report
    assert report.applied == {}
    assert "ops.py, line 15: AttributeError" in report.failed["raises"]
    assert report.failed["stops"] == "The pass stops failed: ops.py, line 19: SystemExit: 3"
    assert "TypeError" in report.failed["none"]
    assert "expected Match" in report.failed["texts"]


def test_a_pass_of_the_program_is_not_replaced():
    with pytest.raises(ValueError, match="a pass of the program"):
        ow.simplify_pass("eliminate_identity")


def test_its_action_changes_a_document_with_undo():
    extensions.load(EXAMPLE)
    (one,) = custom_actions()
    document = ow.Document(parsed(MODEL.replace("[halves] ", "").replace("[double] ", "")))
    twice, split = document.model.graph.nodes
    assert one.tip.startswith("Names the nodes")
    assert one.run(document, (split,)) == "1 nodes have a new name."
    assert (twice.name, split.name) == ("", "SplitHalf_0")
    assert document.undo_title == "Name nodes of my.ops"
    one.run(document, ())
    assert twice.name == "Twice_0"
    with pytest.raises(ModelError, match="There is nothing to name"):
        one.run(document, ())
    document.undo()
    document.undo()
    assert (twice.name, split.name) == ("", "")


def test_a_failing_action_changes_nothing_and_names_its_file(written):
    text = """
from onnx_workbench import action, edits

@action("Break")
def break_it(document, selection):
    with document.edit("Half an edit") as edit:
        edits.rename_node(edit, document.model.graph.nodes.first, "changed")
        {error}

@action("Return")
def return_it(document, selection):
    return 3
"""
    for error in ("raise KeyError('oops')", "raise SystemExit"):
        extensions.load(written(text.format(error=error)))
        document = ow.Document(parsed(RELU))
        first, second = custom_actions()
        with pytest.raises(ModelError) as reported:
            first.run(document, ())
        assert reported.value.title == "Break of ops.py failed"
        assert reported.value.detail.startswith("ops.py, line 8: ")
        assert document.model.graph.nodes.first.name == ""
        assert not document.undo_title
        with pytest.raises(ModelError, match="It returned int"):
            second.run(document, ())
        extensions.unload(extensions.loaded()[0].source)


@pytest.mark.long
def test_its_files_open_in_scripts_and_commands(tmp_path, capsys):
    path, out = tmp_path / "four.TWICE", tmp_path / "four.onnx"
    path.write_text("2\n")
    assert main(["convert", str(path), "--opset", "19", "-o", str(out)]) == 2
    assert "not an ONNX model" in capsys.readouterr().err
    assert main(["convert", str(path), "--opset", "19", "-o", str(out), "--load", str(EXAMPLE)]) == 0
    assert "not compared: the model" not in capsys.readouterr().out
    assert operators_of(ow.load(out)) == ["Twice", "Twice"]
    result = ow.Session(ow.load(path)).run({"v0": np.array([1, 2], np.float32)})
    assert result.outputs["v2"].tolist() == [4, 8]
    path.write_text("many")
    with pytest.raises(ModelError, match=r"This is not a \.twice file"):
        ow.load(path)


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("return path.read_text() + 1", "ops.py, line 6: TypeError"),
        ("import sys; sys.exit(1)", "ops.py, line 6: SystemExit: 1"),
        ("return None", "It returned NoneType, expected a Model or the bytes of an ONNX file."),
        ("return b'not a model'", "plain text, not an ONNX model"),
    ],
)
def test_a_mistake_in_a_reader_is_reported_as_that_of_its_file(written, body, reported):
    text = f"""
from onnx_workbench import reader

@reader(".net")
def read_net(path):
    {body}
"""
    extensions.load(written(text))
    with pytest.raises(ModelError) as error:
        ow.load(written("anything", "model.net"))
    assert reported in str(error.value)


@pytest.mark.parametrize("suffix", ["net", ".", ".onnx", ".ORT"])
def test_a_reader_takes_a_suffix_that_is_free(suffix):
    with pytest.raises(ValueError, match=r"not a suffix|a format of the program"):
        ow.reader(suffix)


def test_its_view_makes_a_table():
    extensions.load(EXAMPLE)
    found = show_value("Signs", np.array([[-1.0, 0.0], [-2.0, 3.0]], np.float32))
    assert found == Table(("position", "negative", "zero", "positive"), (("0", "2", "0", "0"), ("1", "0", "1", "1")))
    with pytest.raises(ModelError, match="does not fit"):
        show_value("Signs", np.array(["a"], object))
    assert len(show_value("Signs", np.zeros((1, 5000), np.float32)).rows) == 2000


def test_views_return_texts_and_images_and_nothing_else(written):
    text = """
import numpy as np
from onnx_workbench import value_view

@value_view("As text")
def as_text(array):
    return f"{array.ndim} axes"

@value_view("Grey")
def grey(array):
    return array / 2

@value_view("Coloured")
def coloured(array):
    return np.stack([array, array * 0, array * 0], axis=-1).astype(np.uint8)

@value_view("Vector")
def vector(array):
    return array.ravel()

@value_view("Number")
def number(array):
    return 3

@value_view("In place")
def in_place(array):
    array[:] = 0

@value_view("Stop")
def stop(array):
    raise SystemExit
"""
    extensions.load(written(text))
    array = np.array([[0.0, 1.0], [2.0, np.nan]], np.float32)
    assert show_value("As text", array) == "2 axes"
    assert show_value("Grey", array).tolist() == [[[0] * 3 + [255], [128] * 3 + [255]], [[255] * 4, [0] * 3 + [255]]]
    assert show_value("Coloured", np.array([[7]]))[0, 0].tolist() == [7, 0, 0, 255]
    assert max(show_value("Grey", np.zeros((5000, 3))).shape) <= 2048
    for title, reported in [
        ("Vector", r"It returned an array float32 \[4\]; expected \[height, width\]"),
        ("Number", "TypeError"),
        ("In place", r"ops\.py, line 27: ValueError"),
        ("Stop", r"The view Stop of ops\.py failed: ops\.py, line 31: SystemExit"),
        ("Gone", "Its extension is not loaded"),
    ]:
        with pytest.raises(ModelError, match=reported):
            show_value(title, array)
    assert array[0, 1] == 1


@pytest.mark.long
def test_loading_the_example_needs_no_qt():
    code = (
        "import sys; from onnx_workbench.model import extensions\n"
        "extensions.load(sys.argv[1]); print(sorted(n for n in ('PySide6', 'networkx', 'onnx') if n in sys.modules))"
    )
    launcher = EXAMPLE.parents[1] / "launcher"
    done = subprocess.run(
        [sys.executable, "-c", code, str(EXAMPLE)], cwd=launcher, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


#: What an extension may raise to end the thread or the program that calls it.
ENDINGS = ("SystemExit(3)", "GeneratorExit()", "KeyboardInterrupt()", "type('Odd', (BaseException,), {})()")


@pytest.fixture
def other_handler():
    """Ctrl+C is handled as the window does it, so that no KeyboardInterrupt is the user's."""
    with handler_of_interrupt(lambda *_: None):
        yield


@contextmanager
def handler_of_interrupt(handler):
    """What handles Ctrl+C. Programs that a shell starts in the background ignore it, and so do their children."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.usefixtures("other_handler")
def test_an_extension_that_would_end_the_program_fails_as_any_other(ending, written, model):
    name = ending.partition("(")[0] if "Odd" not in ending else "Odd"
    with pytest.raises(ModelError, match=name):
        extensions.load(written(f"raise {ending}\n"))
    extensions.load(
        written(
            f"""
import onnx_workbench as ow
def end():
    raise {ending}
ow.kernel("Twice", domain="my.ops", infer=lambda call: end())(lambda x, *, plus=0.0: end())
ow.node_check("ending")(lambda node: end())
ow.simplify_pass("ending")(lambda context: end())
""",
            "ending.py",
        )
    )
    loaded = ow.load(model)
    assert name in str(ow.Session(loaded).run({"x": X}).failures[0])
    (found, *_) = (problem for problem in ow.check(loaded) if problem.rule == "ending")
    assert name in found.detail
    with pytest.raises(ModelError, match=name):
        next(next(one for one in custom_passes() if one.id == "ending").find(None))


def test_the_users_interrupt_ends_what_an_extension_does(written):
    with handler_of_interrupt(signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        extensions.load(written("import signal\nsignal.raise_signal(signal.SIGINT)\n"))
