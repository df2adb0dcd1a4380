"""What tests of scripts and journals have in common: something to do, and the next start of the program."""

import shutil
import tempfile
from pathlib import Path

import numpy as np

from onnx_workbench.model.edits import attributes, functions, initializers, nodes, values
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, SetField
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.recovery.recover import find_journals, recover
from tests.model import builders

#: Nodes of a large document.
LARGE = 3000


def work(document):
    """A few edits of every kind."""
    with document.edit("Insert") as edit:
        nodes.insert_on_edge(edit, builders.value(document, "r"), "Neg")
    with document.edit("Attribute") as edit:
        attributes.set_attribute(edit, builders.node(document, "fourth"), "axis", 0)
    with document.edit("Rename") as edit:
        values.rename_value(edit, builders.value(document, "a"), "renamed")
    with document.edit("Weights") as edit:
        initializers.set_tensor(edit, builders.value(document, "w"), ArrayTensor(np.full((4,), 0.1, np.float32)))
    with document.edit("Function") as edit:
        functions.extract_function(edit, [builders.node(document, "third")], "block")


def rename(document, name="renamed"):
    """One small edit."""
    with document.edit("Rename") as edit:
        edit.do(SetField(document.model.graph, "name", name))


def large_document():
    """A chain of as many nodes more, numbered from its end."""
    document = builders.document()
    graph, value = document.model.graph, builders.value(document, "a")
    for number in range(LARGE):
        made = Node("Relu", (value,), (Value(f"v{number}"),), name=f"n{number}")
        InsertNode(graph, made, builders.node(document, "second")).apply()
        (value,) = made.outputs
    return document


def rename_all(document):
    with document.edit("Rename all") as edit:
        for node in document.model.graph.nodes:
            edit.do(SetField(node, "name", f"{node.name}'"))


def saved_file(tmp_path, text=builders.CHAIN):
    path = builders.model_file(tmp_path / "m.onnx", text)
    return Document(load(path), path)


def killed_now(folder):
    """What the next start makes of a folder of journals if the program is killed at this moment, and of which journal.

    It begins with the file that the journal names, or what lies beside it. The folder is left as it is.
    """
    with tempfile.TemporaryDirectory() as copied:
        state = Path(copied) / "state"
        shutil.copytree(folder, state)
        (leftover,) = find_journals(state)
        assert leftover.fits
        path = Path(leftover.base.path) if leftover.base.path else None
        again = Document(load((path or leftover.baseline).read_bytes()), path)
        recover(again, leftover)
        assert list(state.iterdir()) == []
        return again, leftover


def recovered(document, folder):
    """What the next start makes of the document's file and the journals in a folder."""
    again = Document(load(document.path), document.path)
    for leftover in find_journals(folder):
        assert leftover.fits
        recover(again, leftover)
    return again
