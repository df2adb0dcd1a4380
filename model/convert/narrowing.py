"""Numbers in another floating-point precision: what is beyond its range, and what would become 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.text.elements import float_limits
from onnx_workbench.model.text.formatting import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_NORMAL = {ElementType.FLOAT16: 2.0**-14}  # the others have the exponents of float32

#: Inputs to which a small number is given to keep a result away from 0; None: any.
_OFFSETS = {"Add": None, "Sub": None, "Sum": None, "Max": None, "Div": (1,), "Clip": (1,)}
#: Operators that give such a number another shape or type first.
_CARRIERS = ("Cast", "CastLike", "Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze")


def is_offset(value: Value) -> bool:
    """Return whether a constant is added somewhere, divides, or is a lower limit, as the epsilons of models."""
    for user, index in value.uses:
        if not isinstance(user, Node) or user.domain:
            continue
        places = _OFFSETS.get(user.op_type, ())
        if places is None or index in places:
            return True
        output = user.outputs[0] if user.outputs and user.op_type in _CARRIERS and not index else None
        if output is not None and is_offset(output):
            return True
    return False


class Narrowing:
    """Conversion of one tensor to another precision. What it changed is in `texts` afterwards.

    Numbers beyond the range saturate. With `keeps_small`, those below the least normal number keep their sign and
    become that number, so that what they are added to stays apart from 0.
    """

    def __init__(self, target: ElementType, *, keeps_small: bool = False) -> None:
        self._target = target
        self._least = _LEAST_NORMAL.get(target, 0.0) if keeps_small else 0.0
        self._most = float_limits(target)[0]
        self._beyond = self._vanished = self._raised = 0
        self._largest = 0.0  # of those beyond the target's range

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        """Convert a piece of the tensor."""
        import numpy as np

        with np.errstate(all="ignore"):
            wide = values.astype(np.float64)
            size = np.abs(wide)
            beyond = np.isfinite(wide) & (size > self._most)
            raised = (size > 0) & (size < self._least)
            if beyond.any() or raised.any():
                wide = np.copysign(np.where(beyond, self._most, np.where(raised, self._least, size)), wide)
                values = wide
            narrow: NDArray[Any] = values.astype(self._target.numpy_dtype)
            self._vanished += int(((size > 0) & (narrow.astype(np.float64) == 0)).sum())
        self._beyond += int(beyond.sum())
        self._largest = max(self._largest, float(size[beyond].max(initial=0.0)))
        self._raised += int(raised.sum())
        return narrow

    def texts(self, name: str) -> Iterator[str]:
        """Yield what is to be said of the tensor of a name."""
        if self._beyond:
            yield (
                f"{plural(self._beyond, 'value')} of {name} beyond {self._target.text} (up to {self._largest:.3g}) "
                f"became {self._most:.6g}"
            )
        if self._vanished:
            yield f"{plural(self._vanished, 'small value')} of {name} became 0"
        if self._raised:
            yield f"{plural(self._raised, 'small value')} of {name} became {self._least:.3g}, to stay apart from 0"


def is_small(pieces: Iterable[NDArray[Any]], target: ElementType) -> bool:
    """Return whether all numbers of a tensor are below the least normal one of a type, and not all are 0."""
    import numpy as np

    least, has_any = _LEAST_NORMAL.get(target, 0.0), False
    for piece in pieces:
        size = np.abs(piece.astype(np.float64))
        if not bool((size < least).all()):
            return False
        has_any = has_any or bool(size.any())
    return has_any


def keeps_small(tensor: Tensor, values: Iterable[Value], target: ElementType) -> bool:
    """Return whether the small numbers of a constant must not become 0: an epsilon, by its numbers and its users."""
    return target in _LEAST_NORMAL and any(map(is_offset, values)) and is_small(tensor.pieces(), target)
