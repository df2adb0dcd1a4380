"""How long the window stands still with large and odd models below 20 MB, action by action.

    python -m tests.benchmarks.bench_stalls [--all] [--above MS] [model … | path …]

Opens each model in a window of its own process, does to it what people do, and prints for each action the longest time
between two turns of the event loop: in milliseconds of the GUI thread's processor, in brackets by the clock, with what
the thread did. `--all` runs every action of the program instead of the usual ones. Budget: 500 ms. Offscreen, 1280×800.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_workbench.model.errors import errors_to
from tests.attack.hostile_files import function, ints, model_of, nested_ifs

_QUIET = 0.12  # seconds without tasks and with an idle GUI thread, after which an action is over
_LONGEST = 12.0  # seconds that are waited for an action to be over
_TIMEOUT = 900  # seconds for one model
_STACK = 700  # characters
#: What leaves the window, closes the document, or opens another one.
_LEFT_OUT = frozenset({
    "file.quit", "file.close", "file.reload", "file.open", "file.open_folder", "file.open_sample", "file.new",
    "help.logs", "help.folder", "help.website", "help.report", "go.next_tab", "go.previous_tab", "view.full_screen",
})  # fmt: skip
#: What is run of a model unless all actions are.
_USUAL = (
    "view.fit", "view.expansion.expand_all", "view.expansion.collapse_all", "view.names", "view.attributes",
    "view.initializers", "view.scenes.relayout", "go.enter", "go.up", "go.producers", "go.consumers", "go.main_graph",
    "edit.select_same", "edit.find", "run.run", "run.stop", "edit.delete", "edit.duplicate", "node.extract_function",
    "edit.copy", "edit.paste", "model.inline_all", "graph.sort", "model.value_names", "model.remove_documentation",
)  # fmt: skip
_LONG = "a_rather_long_name_as_exporters_like_to_make_them/" * 6


# -- models ----------------------------------------------------------------------------------------------------


def _chain(count: int, name: str = "v{}") -> ModelProto:
    names = ["x", *(name.format(i) for i in range(count - 1)), "y"]
    return model_of(
        [helper.make_node("Relu", [a], [b], name=f"/layer{i // 10}/n{i}") for i, (a, b) in enumerate(pairwise(names))]
    )


def _fan(count: int) -> ModelProto:
    """One value that very many nodes read."""
    nodes = [helper.make_node("Neg", ["x"], [f"v{i}"]) for i in range(count)]
    return model_of([*nodes, helper.make_node("Neg", ["v0"], ["y"])])


def _wide(count: int) -> ModelProto:
    """One node of very many inputs."""
    nodes = [helper.make_node("Neg", ["x"], [f"v{i}"]) for i in range(10)]
    return model_of([*nodes, helper.make_node("Sum", [f"v{i % 10}" for i in range(count)], ["y"])])


def _grid(rows: int) -> ModelProto:
    """A grid of Max nodes, each with three inputs of the row before."""
    nodes = [helper.make_node("Neg", ["x"], [f"v0_{c}"]) for c in range(50)]
    nodes += [
        helper.make_node("Max", [f"v{r}_{(c + s) % 50}" for s in range(3)], [f"v{r + 1}_{c}"], name=f"n{r}_{c}")
        for r in range(rows)
        for c in range(50)
    ]
    return model_of([*nodes, helper.make_node("Neg", [f"v{rows}_0"], ["y"])])


def _functions(count: int) -> ModelProto:
    made = [function(f"F{i}", [helper.make_node("Neg", ["a"], ["b"])]) for i in range(count)]
    calls = [helper.make_node(f"F{i}", ["x"], [f"v{i}" if i else "y"], domain="d") for i in range(min(count, 1000))]
    return model_of(calls, functions=made)


def _calls(count: int) -> ModelProto:
    nodes = [helper.make_node("F", ["x"], [f"v{i}" if i else "y"], domain="d") for i in range(count)]
    body = [helper.make_node("Neg", ["a"], ["c"]), helper.make_node("Abs", ["c"], ["b"])]
    return model_of(nodes, functions=[function("F", body)])


def _function_chain(count: int) -> ModelProto:
    """Functions that call the next one each."""
    made = [function("F0", [helper.make_node("Neg", ["a"], ["b"])])]
    made += [function(f"F{i}", [helper.make_node(f"F{i - 1}", ["a"], ["b"], domain="d")]) for i in range(1, count)]
    return model_of([helper.make_node(f"F{count - 1}", ["x"], ["y"], domain="d")], functions=made)


def _with(change: Callable[[ModelProto], object], nodes: int = 20) -> ModelProto:
    model = _chain(nodes)
    change(model)
    return model


def _initializers(count: int) -> ModelProto:
    tensors = [numpy_helper.from_array(np.ones(2, np.float32), f"w{i}") for i in range(count)]
    return model_of([helper.make_node("Add", ["x", "w0"], ["y"])], initializers=tensors)


def _used_initializers(count: int) -> ModelProto:
    tensors = [numpy_helper.from_array(np.ones(2, np.float32), f"w{i}") for i in range(count)]
    names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
    nodes = [helper.make_node("Add", [names[i], f"w{i}"], [names[i + 1]]) for i in range(count)]
    return model_of(nodes, initializers=tensors)


def _interface(count: int) -> ModelProto:
    model = model_of([helper.make_node("Neg", [f"x{i}"], [f"y{i}"]) for i in range(count)])
    del model.graph.input[:], model.graph.output[:]
    for i in range(count):
        model.graph.input.add().CopyFrom(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [2]))
        model.graph.output.add().CopyFrom(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [2]))
    return model


def _metadata(model: ModelProto) -> None:
    for i in range(100_000):
        model.metadata_props.add(key=f"key{i}", value=f"value {i}")


def _node_metadata(model: ModelProto) -> None:
    for i in range(100_000):
        model.graph.node[3].metadata_props.add(key=f"key{i}", value=f"value {i}")


def _opsets(model: ModelProto) -> None:
    for i in range(1_900):
        model.opset_import.add(domain=f"domain{i}", version=1)


def _annotations(model: ModelProto) -> None:
    for i in range(50_000):
        note = model.graph.quantization_annotation.add(tensor_name=f"v{i % 19}")
        note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x")


def _value_infos(model: ModelProto) -> None:
    for i in range(100_000):
        info = helper.make_tensor_value_info(f"declared{i}", TensorProto.FLOAT, [f"n{i}", 2])
        model.graph.value_info.add().CopyFrom(info)


def _attribute(value: Any) -> Callable[[ModelProto], object]:
    return lambda model: model.graph.node[3].attribute.append(helper.make_attribute("large", value))


def _attributes(model: ModelProto) -> None:
    model.graph.node[3].attribute.extend(helper.make_attribute(f"a{i}", i) for i in range(1_900))


def _outputs(count: int) -> ModelProto:
    return model_of([helper.make_node("Split", ["x"], ["y", *[f"o{i}" for i in range(count)]])])


def _ifs(count: int) -> ModelProto:
    """Very many Ifs one after the other."""

    def branch(name: str) -> Any:
        output = helper.make_tensor_value_info(f"o{name}", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node("Neg", ["x"], [output.name])], "b", [], [output])

    nodes = [helper.make_node("Cast", ["x"], ["c"], to=9)]
    for i in range(count):
        bodies = {"then_branch": branch(f"t{i}"), "else_branch": branch(f"e{i}")}
        nodes.append(helper.make_node("If", ["c"], [f"v{i}" if i else "y"], **bodies))
    return model_of(nodes)


def _scopes(count: int) -> ModelProto:
    """Very many nodes with names of deep scopes, all different."""
    model = _chain(count)
    for i, node in enumerate(model.graph.node):
        node.name = "/".join(f"s{i // 3**level}" for level in range(8, -1, -1))
    return model


def _dimensions(model: ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim.extend(
        [type(model.graph.input[0].type.tensor_type.shape.dim[0])(dim_value=1)] * 200_000
    )


MODELS: dict[str, Callable[[], ModelProto]] = {
    "nodes": lambda: _chain(100_000),
    "long names": lambda: _chain(20_000, _LONG + "{}"),
    "functions": lambda: _functions(50_000),
    "calls": lambda: _calls(50_000),
    "function chain": lambda: _function_chain(2000),
    "fan-out": lambda: _fan(100_000),
    "inputs of a node": lambda: _wide(99_000),
    "outputs of a node": lambda: _outputs(99_000),
    "grid": lambda: _grid(1000),
    "nested": lambda: nested_ifs(12, 2, same=True),
    "deep": lambda: nested_ifs(25, 1, same=False),
    "ifs": lambda: _ifs(20_000),
    "initializers": lambda: _initializers(100_000),
    "used initializers": lambda: _used_initializers(50_000),
    "interface": lambda: _interface(50_000),
    "metadata": lambda: _with(_metadata),
    "node metadata": lambda: _with(_node_metadata),
    "operator sets": lambda: _with(_opsets),
    "annotations": lambda: _with(_annotations),
    "declared values": lambda: _with(_value_infos),
    "string": lambda: _with(_attribute("text " * 3_000_000)),
    "string lines": lambda: _with(_attribute("text\n" * 3_000_000)),
    "strings": lambda: _with(_attribute(["text"] * 1_000_000)),
    "integers": lambda: _with(_attribute(list(range(1_000_000)))),
    "floats": lambda: _with(_attribute([0.5 * i for i in range(1_000_000)])),
    "attributes": lambda: _with(_attributes),
    "tensor attribute": lambda: _with(_attribute(ints("t", list(range(2_000_000))))),
    "documentation": lambda: _with(lambda model: setattr(model, "doc_string", "words of it " * 1_200_000)),
    "node documentation": lambda: _with(lambda m: setattr(m.graph.node[3], "doc_string", "words\n" * 2_500_000)),
    "one long name": lambda: _with(lambda model: setattr(model.graph.node[3], "name", "n" * 15_000_000)),
    "one long value name": lambda: _chain(5, "v" * 1_500_000 + "{}"),
    "graph name": lambda: _with(lambda model: setattr(model.graph, "name", "g" * 15_000_000)),
    "one long operator": lambda: _with(lambda model: setattr(model.graph.node[3], "op_type", "O" * 15_000_000)),
    "scopes": lambda: _scopes(50_000),
    "dimensions": lambda: _with(_dimensions),
}


# -- the window ------------------------------------------------------------------------------------------------


class Session:
    """The window with one model. Made on the main thread, once in a process."""

    def __init__(self, folder: Path, above: float) -> None:
        from onnx_workbench.viewer.app import Application
        from onnx_workbench.viewer.program.garbage_collection import Collector
        from tests.attack.heartbeat import Heartbeat
        from tests.attack.monkey import StuckMenus

        self.folder, self._above, self._steps = folder, above, 0
        self.application = Application()
        self._collector = Collector(self.application)
        self._collector.start()
        self.window = self.application.start([])
        self.window.resize(1280, 800)
        self._answer_dialogs()
        self.heartbeat = Heartbeat()
        self._stuck_menus = StuckMenus(lambda: self._steps, 300)
        self.wait()

    def _answer_dialogs(self) -> None:
        """Files that are asked for are in the folder; nothing opens outside of the program."""
        from PySide6.QtGui import QDesktopServices
        from PySide6.QtWidgets import QFileDialog

        dialog: Any = QFileDialog
        dialog.getOpenFileName = lambda *_: (str(self.folder / "model.onnx"), "")
        dialog.getOpenFileNames = lambda *_: ([str(self.folder / "model.onnx")], "")
        dialog.getSaveFileName = lambda _parent, _title, at, *_: (
            str(self.folder / f"s{Path(at).name[-80:]}"),
            "",
        )
        dialog.getExistingDirectory = lambda *_: str(self.folder)
        services: Any = QDesktopServices
        services.openUrl = lambda *_: True

    def wait(self) -> None:
        """Handle events until nothing goes on."""
        from PySide6.QtCore import QEvent

        end = time.monotonic() + _LONGEST
        idle_since, busy = time.monotonic(), time.thread_time()
        while (now := time.monotonic()) < end:
            self.application.processEvents()
            self.application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
            tabs = self.window.tabs()
            works = self.window.files.is_waiting or any(tab.workspace.tasks.running for tab in tabs)
            if (
                works
                or any(tab.view.scenes.is_busy for tab in tabs[:1])
                or time.thread_time() - busy > 0.5 * (now - idle_since) + 0.05
            ):
                idle_since, busy = now, time.thread_time()
            elif now - idle_since > _QUIET:
                return
            time.sleep(0.002)

    def do(self, title: str, act: Callable[[], object]) -> None:
        """Do something, wait until it is over, and print its longest stall."""
        self._steps += 1
        self.heartbeat.reset()
        began = time.monotonic()
        with errors_to(lambda e: print(f"    {title}: {type(e).__name__}: {str(e)[:300]}", flush=True)):
            act()
        self.wait()
        busiest, worst = self.heartbeat.busiest, self.heartbeat.worst
        if max(1000 * busiest.busy, 500 * worst.seconds) >= self._above:
            taken = f"{1000 * busiest.busy:7.0f} ({1000 * worst.seconds:7.0f}) ms of {time.monotonic() - began:5.1f} s"
            print(f"  {title[:40]:40} {taken}", flush=True)
            stack = (worst if busiest.busy < 0.5 * worst.seconds else busiest).stack.strip().splitlines()
            for line in stack[:: max(1, len(stack) // 3)] if 1000 * busiest.busy >= self._above else ():
                print(f"      {line[:_STACK]}", flush=True)

    def run(self, action: str) -> None:
        """Run an action of the menus, and close what dialog it shows."""
        self.do(action, lambda: self.window.actions_binding.run(action))
        self.close_dialogs()

    def close_dialogs(self) -> None:
        """Close all dialogs and popups."""
        from PySide6.QtWidgets import QApplication, QDialog

        for dialog in [w for w in QApplication.topLevelWidgets() if isinstance(w, QDialog) and w.isVisible()]:
            self.do(f"close {type(dialog).__name__}", dialog.reject)

    # -- what people do --------------------------------------------------------------------------------------

    def use(self, path: Path, *, every_action: bool) -> None:
        """Open a model, do to it what people do, and close it."""
        window = self.window
        self.do("open", lambda: window.files.open([path]))
        while window.files.is_waiting:
            self.wait()
        if window.tab is None:
            print("  not opened", flush=True)
            return
        self._look()
        self._replace()
        self._run_actions(_all_actions() if every_action else _USUAL)
        for action in ("file.save_copy", "file.save", "model.compare"):
            self.run(action)
        while window.tabs():
            tab = window.tabs()[0]
            self.do("close", lambda tab=tab: window.files.forget(tab))

    @property
    def _workspace(self) -> Any:
        return self.window.tab.workspace

    def _look(self) -> None:
        """Open each panel, select something of each kind, and search."""
        from onnx_workbench.viewer.panel_list import PANELS

        window, workspace = self.window, self._workspace
        for panel in PANELS:
            self.do(f"panel {panel.id}", lambda panel=panel: window.docks.has(panel.id) and window.docks.open(panel.id))
        window.docks.open("inspector")
        for node in islice(workspace.graph.nodes, 6):
            self.do("inspect a node", lambda node=node: workspace.navigation.reveal(node))
            for value in chain(node.inputs[:1], node.outputs[:1]):
                if value is not None:
                    self.do("inspect a value", lambda value=value: workspace.navigation.reveal(value))
        for shown in (workspace.graph, workspace.model):
            self.do(f"inspect the {type(shown).__name__.lower()}", lambda shown=shown: workspace.selection.set([shown]))
        for body in [one.body for one in islice(workspace.model.functions, 2)]:
            self.do("show a function", lambda body=body: workspace.navigation.show(body))
            self.run("go.main_graph")
        self.run("edit.select_all")
        for panel in ("inspector", "raw", "outline", "node_table", "statistics", "problems"):
            self.do(f"all, panel {panel}", lambda panel=panel: window.docks.open(panel))
        for text in ("e", "n", "op:Neg", "nothing of it"):
            find = window.docks.open("find")
            self.do(f"find {text}", lambda text=text, find=find: find.box.setText(text))
            self.run("go.next_match")
        self.do("hover", lambda: workspace.selection.set_hover(next(iter(workspace.graph.nodes), None)))

    def _replace(self) -> None:
        from onnx_workbench.viewer.dialogs.find_replace import FindReplaceDialog

        dialog = FindReplaceDialog.show_for(self.window, self._workspace)
        self.do("replace: find", lambda: (dialog.pattern.setText("v"), dialog.replacement.setText("w")))
        self.do("replace", dialog.apply)
        self.close_dialogs()
        self._undo("replace")

    def _undo(self, title: str) -> None:
        document = self._workspace.document
        self.do(f"{title}, undo", document.undo)
        self.do(f"{title}, redo", document.redo)
        self.do(f"{title}, undo", document.undo)

    def _run_actions(self, actions: Iterable[str]) -> None:
        """Run actions on everything, and on one node; what changes the model is undone, done again and undone."""
        workspace, document = self._workspace, self._workspace.document
        some = list(islice(workspace.graph.nodes, 4))
        for action in actions:
            for everything in (True, False):
                kept = self.window.tab
                if everything:
                    self.run("edit.select_all")
                elif some:
                    self.do("select a node", lambda: workspace.navigation.reveal(some[-1]))
                revision = document.revision
                self.run(action)
                if document.revision != revision:
                    self._undo(action)
                for tab in self.window.tabs():
                    if tab is not kept:
                        self.do(f"close what {action} opened", lambda tab=tab: self.window.files.forget(tab))


def _all_actions() -> list[str]:
    from onnx_workbench.viewer.actions import actions

    return [one.id for one in actions() if one.id not in _LEFT_OUT]


def _in_window(path: Path, options: argparse.Namespace) -> None:
    faulthandler.enable()
    faulthandler.dump_traceback_later(_TIMEOUT - 5, exit=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["ONNX_WORKBENCH_STATE"] = str(folder / "state")
        copy = folder / f"model{path.suffix}"
        copy.write_bytes(path.read_bytes())
        for beside in path.parent.iterdir():
            if beside.suffix == ".bin" and beside.stat().st_size < 1 << 20:
                (folder / beside.name).write_bytes(beside.read_bytes())
        os.chdir(folder)
        Session(folder, options.above).use(copy, every_action=options.all)
    sys.stdout.flush()
    os._exit(0)  # without waiting for what runs on


def main() -> None:
    """Measure the models named, else all of them, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--all", action="store_true", help="every action of the program")
    parser.add_argument("--above", type=float, default=100, help="milliseconds from which on an action is printed")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        _in_window(Path(options.models[0]), options)
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(name) for name in options.models if name not in MODELS}
        for name in [one for one in options.models if one in MODELS] or ([] if paths else MODELS):
            paths[name] = Path(folder, f"{len(paths)}.onnx")
            paths[name].write_bytes(MODELS[name]().SerializeToString())
        more = [*(["--all"] if options.all else []), "--above", str(options.above)]
        for name, path in paths.items():
            print(f"{name}, {path.stat().st_size / 1e6:.1f} MB", flush=True)
            call = [sys.executable, "-m", "tests.benchmarks.bench_stalls", "--alone", str(path), *more]
            try:
                status = subprocess.run(call, timeout=_TIMEOUT, check=False).returncode
            except subprocess.TimeoutExpired:
                status = -1
            if status:
                print(f"  ended with {status}", flush=True)


if __name__ == "__main__":
    main()
