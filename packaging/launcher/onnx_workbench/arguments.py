"""Checks of the arguments of the Python API: a wrong one is an error that says what is expected or exists."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Model, Node

if TYPE_CHECKING:
    from onnx_workbench.model.history.document import Document


def as_document(target: Any) -> Document:
    """The document itself, or that of a model: a new one if it has none. What is changed must be held by the caller: no
    path.
    """
    from onnx_workbench.model.history.document import Document, document_of

    if isinstance(target, Document):
        return target
    if isinstance(target, Model):
        return document_of(target) or Document(target)
    how = "; load it first, or the changes would be lost" if isinstance(target, (str, os.PathLike, bytes)) else ""
    raise TypeError(f"{target!r:.200} cannot be changed; expected a Model or a Document{how}")


def texts(name: str, given: Iterable[str]) -> list[str]:
    """A list of strings; TypeError for a single string, which would be taken letter by letter."""
    if isinstance(given, (str, bytes)):
        raise TypeError(f"{name} is the string {given!r}; expected a list of strings, such as [{given!r}]")
    found = list(given)
    for text in found:
        if not isinstance(text, str):
            raise TypeError(f"{name} holds {text!r:.200}; expected strings")
    return found


def known(name: str, given: Iterable[str], there: Iterable[str]) -> list[str]:
    """Texts of a few that there are; ModelError names these for another one."""
    found, names = texts(name, given), list(there)
    for text in found:
        if text not in names:
            near = get_close_matches(text, names, 1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise ModelError(f"{text!r} is unknown as {name}", f"{hint}There are: {', '.join(names)}.")
    return found


def nodes_of(given: Collection[Node] | None, model: Model) -> Collection[Node] | None:
    """Nodes of a model; TypeError for names, ModelError for nodes of another model."""
    if given is None:
        return None
    found = list(given)
    for node in found:
        if not isinstance(node, Node):
            raise TypeError(f"nodes holds {node!r:.200}; expected Node objects of the model, such as model.graph.nodes")
        if node.graph is None or node.graph.model is not model:
            raise ModelError(
                f"{node.title} is no node of this model", "It was removed, or belongs to another one.", node
            )
    return found
