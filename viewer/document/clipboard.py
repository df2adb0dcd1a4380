"""Nodes on the clipboard: copied and pasted within a model, between models, windows and running programs.

The system's clipboard gets the nodes in two forms: as a small model, which another ONNX Workbench can paste, and as
text, one line per node. Within the program the nodes themselves are also kept, so that weights are shared instead of
copied.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from PySide6.QtCore import QMimeData
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.analysis.search import value_text
from onnx_workbench.model.edits import copy_paste
from onnx_workbench.model.edits.copy_paste import Fragment
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.progress import SILENT, Progress

#: MIME type of a model whose graph holds the nodes.
MODEL_FORMAT = "application/x-onnx-workbench-nodes"
_COPY_FORMAT = "application/x-onnx-workbench-copied"

#: With more bytes of weights than this, other programs get only the text.
MOST_WEIGHTS = 16 << 20
_LONGEST_VALUE = 200

_copied: dict[str, Fragment] = {}  # the nodes copied last, by token: there is one system clipboard


@dataclass(frozen=True)
class Copied:
    """Nodes in the forms in which the clipboard gets them; `content` is None if they are too large for others."""

    fragment: Fragment
    text: str
    content: bytes | None


def copy(nodes: Collection[Node]) -> None:
    """Copy nodes of one graph to the clipboard. ModelError if they are of several graphs."""
    put(prepared(copy_paste.copy(nodes)))


def prepared(fragment: Fragment, progress: Progress = SILENT) -> Copied:
    """Return copied nodes in all forms. Any thread: it takes some 10 µs for each."""
    text = _clean(text_of(progress.paced(fragment.graph.nodes)))
    return Copied(fragment, text, _as_bytes(fragment, progress))


def put(copied: Copied) -> None:
    """Put nodes on the clipboard."""
    token = uuid.uuid4().hex
    data = QMimeData()
    data.setText(copied.text)
    data.setData(_COPY_FORMAT, token.encode())
    if copied.content is not None:
        data.setData(MODEL_FORMAT, copied.content)
    QApplication.clipboard().setMimeData(data)
    _copied.clear()
    _copied[token] = copied.fragment


def has_nodes() -> bool:
    """Return whether there are nodes on the clipboard. Cheap."""
    data: QMimeData | None = QApplication.clipboard().mimeData()  # None while a platform has no clipboard yet
    formats = data.formats() if data is not None else []
    return MODEL_FORMAT in formats or (bool(_copied) and _COPY_FORMAT in formats)


def is_of_cells() -> bool:
    """Return whether a text on the clipboard is from a spreadsheet, which also provides cells as a table."""
    data: QMimeData | None = QApplication.clipboard().mimeData()
    return data is not None and data.hasHtml() and "<table" in data.html().lower()


def copied() -> Fragment:
    """Return the nodes on the clipboard, from this or another running program; ModelError if there are none."""
    data = QApplication.clipboard().mimeData() or QMimeData()
    token = bytes(data.data(_COPY_FORMAT).data()).decode("ascii", "replace")
    if token in _copied:
        return _copied[token]
    content = bytes(data.data(MODEL_FORMAT).data())
    if not content:
        raise ModelError("There are no nodes on the clipboard", "Select nodes and copy them first.")

    model = load(content)
    return Fragment(model.graph, model.functions, dict(model.opset_imports), configurations=model.configurations)


def _as_bytes(fragment: Fragment, progress: Progress) -> bytes | None:
    """Return the nodes as a serialized model; None if it is too large for a clipboard or cannot be written."""
    weights = sum(v.initializer.nbytes for v in fragment.graph.initializers if v.initializer is not None)
    if weights > MOST_WEIGHTS:
        return None
    model = Model(fragment.graph)
    model.opset_imports = fragment.opset_imports
    model.functions = fragment.functions
    model.configurations = fragment.configurations
    try:
        return to_bytes(model, progress=progress)
    except (ModelError, OSError):
        return None  # weights are unavailable: the nodes can still be pasted within the program


def text_of(nodes: Iterable[Node]) -> str:
    """Return one line per node, similar to ONNX's text format: ``[name] y = Conv <group = 1> (x, w)``."""
    return "\n".join(_line(node) for node in nodes)


def _line(node: Node) -> str:
    name = f"[{node.name}] " if node.name else ""
    attributes = ", ".join(
        f"{key} = {'@' + a.reference if a.reference else _short(value_text(a.value, _LONGEST_VALUE))}"
        for key, a in node.attributes.items()
    )
    outputs = ", ".join(map(_name, node.outputs))
    inputs = ", ".join(map(_name, node.inputs))
    return f"{name}{outputs} = {node.qualified_op_type}{f' <{attributes}>' if attributes else ''} ({inputs})"


def _name(value: Value | None) -> str:
    return '""' if value is None else value.name


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _clean(text: str) -> str:
    """Replace surrogates (bytes of names that are not UTF-8), which clipboards do not accept."""
    return text.encode("utf-8", "replace").decode("utf-8")


def paste_target(graph: Graph, selected: Iterable[object]) -> Node | None:
    """Return the node before which to paste: that after the last selected node of the graph; None for the end."""
    chosen = [item for item in selected if isinstance(item, Node) and item.graph is graph]
    return chosen[-1].next if chosen else None
