"""The window in another language, in processes of its own, with the package as a wheel has it."""

import ast
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_workbench.viewer.program import language

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")

WINDOW = """
import sys
from pathlib import Path

from PySide6.QtCore import QDeadlineTimer, qInstallMessageHandler
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialogButtonBox

from onnx_workbench.viewer.cli import main
from onnx_workbench.viewer.program import language

language.choose()
assert language.current() == "zh_CN"
from onnx_workbench.viewer.app import Application
from onnx_workbench.viewer.program.settings import EDGE_NOTES, LANGUAGE
from onnx_workbench.viewer.dialogs.preferences import PreferencesDialog
from onnx_workbench.viewer.panel_list import PANELS
from tests.viewer.activity import activity_in

messages = []
qInstallMessageHandler(lambda kind, _, text: messages.append(text))
application = Application()
window = application.start(["--sample"])


def workspace():
    return window.area.workspace


def settle():
    deadline = QDeadlineTimer(120_000)
    QTest.qWait(1)
    while workspace() is None or activity_in(window):
        assert not deadline.hasExpired(), activity_in(window)
        QTest.qWait(10)


settle()
print([action.text() for action in window.menuBar().actions() if action.isVisible()])
window.actions_binding.run("run.run")
settle()
print(workspace().results.current is not None)
for info in PANELS:
    window.docks.open(info.id)
    settle()
dialog = PreferencesDialog(window.settings)
dialog.show()
settle()
print(dialog.windowTitle(), "|", dialog.findChild(QDialogButtonBox).buttons()[0].text())
for option, value in ((EDGE_NOTES, "mean"), (LANGUAGE, "en")):
    editor = dialog.editors[option.key]
    editor.setCurrentIndex(editor.findData(value))
    editor.activated.emit(editor.currentIndex())
    assert window.settings.get(option) == value
print(editor.currentText())
settle()
folder = Path(language.__file__).parents[2]
for name, module in list(sys.modules.items()):
    if name.startswith("onnx_workbench.") and "languages" not in Path(module.__file__).parts:
        place = folder.joinpath("languages", "zh_CN", *name.split(".")[1:])
        assert not place.with_suffix(".py").exists(), f"{name} was imported before the language was known"
window.settings.sync()
dialog.close()
window.close()
print([text for text in messages if not text.startswith("This plugin does not support ")])
"""

CHOICE = """
from onnx_workbench.viewer.program import language

language.choose()
print(language.current())
"""

WORK = """
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import onnx_workbench as ow
from onnx_workbench.exec.engine.breakpoints import AFTER, Breakpoint
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.model.diff import compare
from onnx_workbench.model.edits.apply_difference import apply_differences
from onnx_workbench.viewer.program import language
from onnx_workbench.exec.transform.convert import ConvertOptions


def write(path, text, order):
    ports = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [50_000]) for name in "xyz"}
    body = [helper.make_node("Exp", ["x"], ["one"])]
    then = helper.make_graph(body, "body", [], [helper.make_tensor_value_info("one", TensorProto.FLOAT, [50_000])])
    nodes = [
        helper.make_node("If", ["c"], ["i"], then_branch=then, else_branch=then),
        helper.make_node("Add", ["x", "w"], ["s"], doc_string=text),
        helper.make_node("Mul", ["s", "i"], ["z"]),
        helper.make_node("Neg", ["s"], ["y"]),
    ]
    weights = numpy_helper.from_array(np.ones(50_000, np.float32), "w")
    inputs = [ports["x"], helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [ports[name] for name in order], [weights], doc_string=text)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return ow.load(path)


if __name__ == "__main__":
    assert language.current() == "zh_CN"
    a, b = write("a.onnx", "one", "yz"), write("b.onnx", "two", "zy")
    ow.save(a, "a.onnxtxt")
    with ow.Document(a).edit("copy") as edit:
        comparison = compare(a, b)
        assert comparison
        print(apply_differences(edit, comparison, comparison.differences, "old"))
    print(compare(a, b).differences)
    print(ConvertOptions(opset=21).functions)
    session = WorkerSession(a)
    branch, last = a.graph.nodes[0], a.graph.outputs[0]
    feeds = {"x": np.ones(50_000, np.float32), "c": np.array(True)}
    stepper = session.steps(feeds, breakpoints=[Breakpoint(branch), Breakpoint(value=last)])
    stepper.resume()
    stepper.step(into=True)
    print(stepper.next_node[1].op_type)
    print(stepper.resume().startswith(AFTER))
    session.close()
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder in which the package lies as in a wheel, with its translations."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "onnx_workbench").mkdir()
    launcher = ROOT / "packaging" / "launcher" / "onnx_workbench"
    rooms = [ROOT / room for room in ("model", "exec", "viewer", "resources")]
    for source in (*launcher.glob("*.py"), launcher / "api", *rooms):
        (folder / "onnx_workbench" / source.name).symlink_to(source)
    runpy.run_path(str(ROOT / "packaging" / "translations.py"))["build"](folder / "onnx_workbench" / "languages")
    return folder


def start(package, script, locale):
    """Run a script with the package; return what it prints."""
    paths = os.pathsep.join([str(package), str(ROOT)])
    system = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**system, "PYTHONPATH": paths, "LANG": locale, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout.splitlines()


@pytest.mark.long
def test_the_window_is_in_the_language_of_the_system_or_the_setting(package):
    texts = json.loads((ROOT / "resources" / "languages" / "zh_CN.json").read_text("utf-8"))["texts"]
    menus, has_run, preferences, language_name, messages = start(package, WINDOW, "zh_CN.UTF-8")
    titles = [
        texts["viewer/actions/action.py"][f"&{title}"]
        for title in ("File", "Edit", "View", "Go", "Model", "Run", "Help")
    ]
    assert menus == str(titles)
    assert has_run == "True"
    assert preferences == f"{texts['viewer/dialogs/preferences.py']['Preferences']} | 关闭"
    assert language_name == "English"
    assert messages == "[]"
    assert start(package, CHOICE, "zh_CN.UTF-8") == ["en"], "it was set above"


@pytest.mark.long
def test_the_program_works_alike_in_another_language(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONNX_WORKBENCH_LANGUAGE", "zh_CN")
    (tmp_path / "work.py").write_text(WORK, "utf-8")
    done = start(package, "import runpy; runpy.run_path('work.py', run_name='__main__')", "zh_CN.UTF-8")
    assert done == ["[]", "[]", "None", "Exp", "True"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("locale", "expected"), [("zh_SG.UTF-8", "zh_CN"), ("zh_TW.UTF-8", "en"), ("xx_YY.UTF-8", "en")]
)
def test_a_language_that_is_not_there_is_english(package, locale, expected):
    assert start(package, CHOICE, locale) == [expected]


def test_a_translation_keeps_lines_and_names(package):
    for file in (package / "onnx_workbench" / "languages" / "zh_CN").rglob("*.py"):
        source = ROOT / file.relative_to(package / "onnx_workbench" / "languages" / "zh_CN")
        assert len(file.read_text("utf-8").splitlines()) == len(source.read_text("utf-8").splitlines()), file


def test_faults_of_a_translation_are_found():
    translations = runpy.run_path(str(ROOT / "packaging" / "translations.py"))
    faults = translations["faults"]
    assert faults("{count} of &all {name}…", "{name} 的全部 {count}…", is_format=True)
    assert faults("{plural(n, 'node')}", "{plural(m, '个节点')}", is_format=True)
    assert faults("{plural(n, 'node')}", "{plural(n, '个节点')", is_format=True)
    assert not faults("{plural(n, 'node')} in &all", "全部(&A) {plural(n, '个节点')}", is_format=True)


def test_only_what_is_a_text_is_translated():
    translate = runpy.run_path(str(ROOT / "packaging" / "translations.py"))["translate"]
    source = '''"""Open file."""
key = values["Open file"]
label = (
    "Open "
    "file"
)
other = f"{len(key)} Open {label!r}:\\n"
assert label == "Open file"
'''
    given = {"Open file": "打开\n“文件”", "{len(key)} Open {label!r}:\n": '打开 \\ "{label!r}" {{{len(key)}}}\n'}
    found = {"values": {"Open file": [1, 2]}}
    translated = translate(source, "viewer/some.py", given)
    assert translated.count("\n") == source.count("\n")
    exec(translated.replace("assert", "same ="), found)
    assert found["label"] == given["Open file"]
    assert found["other"] == "打开 \\ \"'打开\\n“文件”'\" {2}\n"
    assert found["same"] is False


def test_english_is_there_without_translations():
    assert language.current() == "en"
    assert language.names()["en"] == "English"


def test_a_word_that_is_joined_to_others_is_a_text():
    translations = runpy.run_path(str(ROOT / "packaging" / "translations.py"))
    tree = ast.parse("count.setSuffix(' runs')\nshow('runs')")
    texts = [text for text in translations["strings_in"](tree) if translations["is_text"](text, "viewer/some.py")]
    assert [text.text for text in texts] == [" runs"]
