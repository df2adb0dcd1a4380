"""Match initializers of a model with arrays of a weight file: by name, then by shape and type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from onnx_workbench.model.budget import WINDOW_TENSOR
from onnx_workbench.model.edits.tensors import kind_of, remade
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.mapped_arrays import TEXT_BYTES, array_of, arrays_of, whole_array
from onnx_workbench.model.io.tensors.weight_files import StoredArray, WeightFile
from onnx_workbench.model.ir.graph import Model, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Compatibility of an array with its initializer; `transposed`: it fits with its two axes swapped.
Fit = Literal["fits", "transposed", "other shape", "other type", "unreadable"]

#: Prefixes that training frameworks add to the names of a model's parameters.
_PREFIXES: Final = ("module.", "_orig_mod.", "model.", "base_model.", "transformer.")


@dataclass(frozen=True, slots=True)
class WeightMatch:
    """An initializer with its tensor `old`, and the array of a weight file that has its name."""

    value: Value
    old: Tensor | SparseTensor
    array: StoredArray
    fit: Fit

    @property
    def can_import(self) -> bool:
        """Return whether the array can replace the tensor."""
        return self.fit in ("fits", "transposed")


@dataclass(frozen=True, slots=True)
class WeightMatches:
    """Result of matching a model with a weight file; `missing` initializers and `unused` arrays have no match."""

    matches: Sequence[WeightMatch]
    missing: Sequence[Value]
    unused: Sequence[StoredArray]


def match_weights(model: Model, arrays: Mapping[str, StoredArray]) -> WeightMatches:
    """Match the initializers of all graphs with arrays of the same name, else of the same name without usual prefixes.

    A shorter name is used only if it is unique on both sides. Reads no values.
    """
    values = [value for graph in model.graphs() for value in graph.initializers]
    array_by_value: dict[Value, StoredArray] = {v: arrays[v.name] for v in values if v.name in arrays}
    taken = {array.name for array in array_by_value.values()}
    rest = [value for value in values if value not in array_by_value]
    short_values = Counter(_short(value.name) for value in rest)
    short_arrays: dict[str, list[StoredArray]] = {}
    for array in arrays.values():
        if array.name not in taken:
            short_arrays.setdefault(_short(array.name), []).append(array)
    for value in rest:
        candidates = short_arrays.get(_short(value.name), ())
        if len(candidates) == 1 and short_values[_short(value.name)] == 1:
            array_by_value[value] = candidates[0]
            taken.add(candidates[0].name)
    return WeightMatches(
        [
            WeightMatch(value, value.initializer, array_by_value[value], _fit(value.initializer, array_by_value[value]))
            for value in values
            if value in array_by_value and value.initializer is not None
        ],
        [value for value in values if value not in array_by_value],
        [array for array in arrays.values() if array.name not in taken],
    )


def read_weights(
    matches: Iterable[WeightMatch],
    weights: WeightFile,
    cast: Callable[[NDArray[Any], ElementType], NDArray[Any]],
) -> Iterable[tuple[WeightMatch, Tensor]]:
    """Read the arrays that can be imported, each in the type of its initializer, one at a time.

    `cast` is the ONNX cast of exec. ModelError when the file changed. Blocks; any thread.
    """
    for match in matches:
        old = match.old
        if not match.can_import or not isinstance(old, Tensor):
            continue
        kind, read = kind_of(old), weights.read(match.array.name)
        array = whole_array(read)
        if match.fit == "transposed" or read.element_type is not kind:
            stored = ArrayTensor(array.T if match.fit == "transposed" else array, kind_of(read))
            array = array_of((cast(piece, kind) for piece in stored.pieces()), kind.numpy_dtype, tuple(old.shape))
        yield match, remade(old, array)


def read_all_weights(
    matches: Sequence[WeightMatch],
    weights: WeightFile,
    cast: Callable[[NDArray[Any], ElementType], NDArray[Any]],
    progress: Progress = SILENT,
) -> list[tuple[WeightMatch, Tensor]]:
    """Read the arrays as `read_weights` does; those that are large together are in one mapped file."""
    olds = [match.old for match in matches if match.can_import and isinstance(match.old, Tensor)]
    read = progress.paced(read_weights(matches, weights, cast), 1, of=len(matches))
    texts = sum(old.size for old in olds if kind_of(old) is ElementType.STRING)
    if texts * TEXT_BYTES > WINDOW_TENSOR:
        detail = f"{texts:,} texts; at most {WINDOW_TENSOR:,} bytes are imported at once."
        raise ModelError("The strings are too large", detail, str(weights.path))
    if texts or sum(old.size * kind_of(old).numpy_dtype.itemsize for old in olds) <= WINDOW_TENSOR:
        return list(read)
    olds_in_order: list[tuple[WeightMatch, Tensor]] = []

    def parts() -> Iterator[tuple[Iterable[NDArray[Any]], np.dtype[Any], tuple[int, ...]]]:
        for match, tensor in read:
            olds_in_order.append((match, match.old if isinstance(match.old, Tensor) else tensor))
            yield tensor.pieces(), kind_of(tensor).numpy_dtype, tuple(tensor.shape)

    arrays = arrays_of(parts())
    return [(match, remade(old, array)) for (match, old), array in zip(olds_in_order, arrays, strict=True)]


def _short(name: str) -> str:
    while True:
        prefix = next((p for p in _PREFIXES if name.startswith(p) and len(name) > len(p)), "")
        if not prefix:
            return name
        name = name.removeprefix(prefix)


def _fit(old: Tensor | SparseTensor, array: StoredArray) -> Fit:
    if array.problem:
        return "unreadable"
    if isinstance(old, SparseTensor) or not isinstance(old.element_type, ElementType):
        return "other type"
    kinds = (array.element_type, old.element_type)
    if kinds[0] is not kinds[1] and not all(kind is not None and kind.is_float for kind in kinds):
        return "other type"
    if tuple(old.shape) == array.shape:
        return "fits"
    if len(array.shape) == 2 and tuple(old.shape) == array.shape[::-1]:
        return "transposed"
    return "other shape"
