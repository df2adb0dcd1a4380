"""An extension: operators of a domain of one's own, for models whose nodes call them, and a rule for checks.

onnx-workbench run model.onnx --load my_ops.py          (and check, infer, simplify … and the window)
Preferences › Extensions › Add File…                     (loads it whenever the window starts, once ticked)
"""

import numpy as np

from onnx_workbench import kernel, node_check


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
