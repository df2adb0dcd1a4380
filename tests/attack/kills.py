"""What is left of a window in which somebody edits and saves without a pause, when the program is killed.

    python -m tests.attack.kills [--rounds 200]

Each round kills a program of its own, every other one within milliseconds after a file was replaced, and does what the
next start does: the model must be as it was shown last, or as the edit that was on its way makes it. Saves go to one
file or the other.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from onnx import TensorProto, helper

_SECONDS = 1.5  # after the first edit, within which a program is killed
_SOON = 0.003  # after a new file is there
_NODES = 200

_EDITOR = """
import json, os, random, sys
from pathlib import Path
from PySide6.QtCore import QTimer
from onnx_workbench.model.edits.nodes import insert_on_edge
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.viewer.app import Application
from onnx_workbench.viewer.files.save import SaveOptions

path, other = map(Path, sys.argv[1:])
application = Application()
window = application.start([str(path)])
number = 0

def tell(kind, description, nodes):
    os.write(1, (json.dumps([kind, description, nodes]) + "\\n").encode())

def state(document):
    return document.model.graph.doc_string, len(document.model.graph.nodes)

def edit(document):
    global number
    number += 1
    graph = document.model.graph
    tell("begun", str(number), len(graph.nodes) + 1)
    with document.edit("Insert") as change:
        insert_on_edge(change, random.choice(list(graph.nodes)).outputs[0], "Neg")
        change.do(SetField(graph, "doc_string", str(number)))

def undo(document):
    with document.at(document.current.parent):
        before = state(document)
    tell("begun", *before)
    document.undo()

def work():
    tab = window.tab
    if tab is None:
        return
    document = tab.workspace.document
    (undo if document.undo_title and random.random() < 0.3 else edit)(document)
    tell("shown", *state(document))
    if not window.files.saving:
        window.files.saver.save_with(tab, SaveOptions(random.choice([tab.path, tab.path, path, other])))

timer = QTimer(interval=1)
timer.timeout.connect(work)
timer.start()
application.exec()
"""


def write_model(path: Path) -> None:
    """A chain of nodes with a weight of 1 MB, so that saves take a moment."""
    nodes = [helper.make_node("Relu", [f"v{n}"], [f"v{n + 1}"]) for n in range(_NODES)]
    weights = helper.make_tensor("w", TensorProto.UINT8, [1 << 20], random.randbytes(1 << 20), raw=True)
    value = helper.make_tensor_value_info
    ends = [value("v0", TensorProto.FLOAT, [4])], [value(f"v{_NODES}", TensorProto.FLOAT, [4])]
    graph = helper.make_graph(nodes, "chain", *ends, [weights], doc_string="0")
    path.write_bytes(helper.make_model(graph).SerializeToString())


def next_start(state: Path, files: list[Path]) -> list[tuple[str, int]]:
    """What the next start has: what is recovered, or what the files hold when there is nothing to recover."""
    from onnx_workbench.model.history.document import Document
    from onnx_workbench.model.io.reader.read import load
    from onnx_workbench.model.recovery.recover import find_journals, recover

    found = [leftover for leftover in find_journals(state / "journals") if leftover.titles or leftover.is_unsaved]
    if len(found) > 1 or not all(leftover.fits for leftover in found):
        return [("does not fit", len(found))]
    paths = [Path(leftover.base.path) for leftover in found] or [file for file in files if file.exists()]
    documents = [Document(load(path), path) for path in paths]
    for leftover, document in zip(found, documents, strict=False):
        recover(document, leftover)
    return [(document.model.graph.doc_string, len(document.model.graph.nodes)) for document in documents]


def wait_for_new(*files: Path) -> None:
    """Until one of the files is another than it was: what is reported next is the save that it comes from."""

    def found() -> list[int]:
        return [file.stat().st_ino if file.exists() else 0 for file in files]

    before = found()
    while found() == before:
        pass


def kill_once(folder: Path) -> tuple[str, int]:
    """One round: what became of the last edit, and of how many."""
    path, other, state = folder / "m.onnx", folder / "other.onnx", folder / "state"
    write_model(path)
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "ONNX_WORKBENCH_STATE": str(state)}
    command = [sys.executable, "-c", _EDITOR, str(path), str(other)]
    with (folder / "report").open("wb") as report, (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(command, stdout=report, stderr=errors, env=environment)
        while not (folder / "report").stat().st_size:
            if process.poll() is not None:
                raise SystemExit((folder / "errors").read_text())
            time.sleep(0.01)
        time.sleep(random.uniform(0, _SECONDS))
        if random.random() < 0.5:
            wait_for_new(path, other)
            time.sleep(random.uniform(0, _SOON))
        process.kill()
        process.wait()
    lines = [json.loads(line) for line in (folder / "report").read_text().splitlines()]
    shown = [(description, nodes) for kind, description, nodes in lines if kind == "shown"] or [("0", _NODES)]
    begun = [(description, nodes) for kind, description, nodes in lines if kind == "begun"]
    has = next_start(state, [path, other])
    if shown[-1] in has:
        return "as shown", len(shown)
    if lines[-1][0] == "begun" and begun[-1] in has:
        return "one edit further", len(shown)
    print(f"  lost: {shown[-1]} was shown, the next start has {has}")
    return "lost", len(shown)


def main() -> None:
    """Kill, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    counts, edits = Counter[str](), 0
    for _ in range(parser.parse_args().rounds):
        with tempfile.TemporaryDirectory() as name:
            outcome, made = kill_once(Path(name))
            counts[outcome] += 1
            edits += made
    print(f"after a kill the next start has the model {dict(counts)} (bar: none lost), of {edits} edits and undos")


if __name__ == "__main__":
    main()
