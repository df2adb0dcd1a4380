"""An extension: operators of a domain of one's own, and one of everything else that an extension can add.

onnx-workbench run model.onnx --load my_ops.py          (and check, infer, simplify … and the window)
Preferences › Extensions › Add File…                     (loads it whenever the window starts, once ticked)
"""

import numpy as np

from onnx_workbench import Match, ModelError, action, edits, kernel, node_check, reader, simplify_pass, value_view


@kernel("Twice", domain="my.ops", infer="same as input 0")
def twice(x, *, plus=0.0):
    """Twice x, plus a number."""
    return x * 2 + np.asarray(plus, x.dtype)


def split_types(call):
    """The types of both outputs: the size of the last axis is that of the input, halved."""
    given, dims = call.tensor(0), call.dims(0)
    if given is None or not dims or not isinstance(dims[-1], int):
        return [None, None]
    half = type(given)(given.element_type, type(given.shape)((*dims[:-1], dims[-1] // 2)))
    return [half, half]


@kernel("SplitHalf", domain="my.ops", since=2, outputs=("first", "second"), infer=split_types)
def split_half(x):
    """The two halves of x along its last axis."""
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half : 2 * half]


@node_check("my-ops-name")
def is_named(node):
    """Nodes of this domain have a name, by which their results are found in a report."""
    if node.domain == "my.ops" and not node.name:
        yield f"{node.op_type} has no name"


@simplify_pass("twice_to_add")
def twice_to_add(context):
    """Replaces Twice without a number by Add, which every runtime has."""
    for node in context.all_nodes():
        if (node.domain, node.op_type) == ("my.ops", "Twice") and not _plus(node):

            def apply(rewriter, node=node):
                rewriter.replace_node(node, "Add", (node.inputs[0], node.inputs[0]))

            yield Match(f"{node.title} becomes Add", (node,), apply)


def _plus(node):
    attribute = node.attributes.get("plus")
    return 0.0 if attribute is None else attribute.value


@action("Name Nodes of my.ops")
def name_nodes(document, selection):
    """Names the nodes of this domain that have no name: those that are selected, or all of the main graph."""
    nodes = [item for item in selection or document.model.graph.nodes if getattr(item, "domain", "") == "my.ops"]
    unnamed = [node for node in nodes if not node.name]
    if not unnamed:
        raise ModelError("There is nothing to name", "Every node of my.ops that was looked at has a name.")
    with document.edit("Name nodes of my.ops") as edit:
        for number, node in enumerate(unnamed):
            edits.rename_node(edit, node, f"{node.op_type}_{number}")
    return f"{len(unnamed)} nodes have a new name."


@reader(".twice")
def read_twice(path):
    """A file that holds a number: the model that doubles its input so many times."""
    text = path.read_text().strip()
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise ModelError("This is not a .twice file", "It has to hold a number from 1 to 100.")
    nodes = "".join(f"[twice_{i}] v{i + 1} = my.ops.Twice(v{i}) " for i in range(int(text)))
    head = '<ir_version: 8, opset_import: ["" : 18, "my.ops" : 2]>'
    return f"{head} doubling (float[n] v0) => (float[n] v{text}) {{ {nodes} }}".encode()


@value_view("Signs")
def signs(array):
    """How many elements are negative, zero and positive, by position along the last axis."""
    if array.dtype.kind not in "if" or not array.ndim:
        return None
    rows = array.reshape(-1, array.shape[-1])
    counts = np.stack([(rows < 0).sum(0), (rows == 0).sum(0), (rows > 0).sum(0)], axis=1)
    return [("position", "negative", "zero", "positive"), *((i, *row) for i, row in enumerate(counts.tolist()))]
