"""Feature engineering: Scaler, Normalizer, Imputer, Binarizer, encoders, vectorizers and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx_ml.scores import class_labels, matrix
from onnx_workbench.exec.kernels.registry import compiled, kernel
from onnx_workbench.exec.kernels.shared.dtypes import cast
from onnx_workbench.exec.values.arrays import Array, check_size, zeros
from onnx_workbench.exec.values.statistics import describe

ML = "ai.onnx.ml"
Map = dict[Any, Any]


@kernel("ArrayFeatureExtractor", since=1, domain=ML)
def array_feature_extractor_1(x: Array, y: Array) -> Array:
    """Select entries of the last axis by index; a 1-D input is one row."""
    places = y.reshape(-1)
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    if places.size and not 0 <= int(places.min()) <= int(places.max()) < rows.shape[-1]:
        msg = f"an index is {places.min()} or {places.max()}; expected within [0, {rows.shape[-1] - 1}]"
        raise KernelError(msg)
    check_size((*rows.shape[:-1], places.size), rows.dtype)
    return rows.take(places, -1)


@kernel("Binarizer", since=1, domain=ML)
def binarizer_1(x: Array, *, threshold: float = 0.0) -> Array:
    """1 above the threshold, else 0."""
    return (x > threshold).astype(x.dtype)


@kernel("Scaler", since=1, domain=ML)
def scaler_1(x: Array, *, offset: Sequence[float] | None = None, scale: Sequence[float] | None = None) -> Array:
    """(x - offset) · scale in float32; both have one entry, or one per feature."""
    result = x.astype(np.float32)
    for values, apply in ((offset, np.subtract), (scale, np.multiply)):
        if values is not None:
            apply(result, _per_feature(values, x, np.float32), out=result)
    return result


def _per_feature(values: Sequence[Any], x: Array, dtype: Any) -> Array:
    if len(values) != 1 and (not x.ndim or len(values) != x.shape[-1]):
        msg = f"{len(values)} values for an input of shape {x.shape}; expected 1 or one per feature"
        raise KernelError(msg)
    return np.array(values, dtype)


@kernel("Normalizer", since=1, domain=ML)
def normalizer_1(x: Array, *, norm: str = "MAX") -> Array:
    """Each row divided by its largest entry, sum of magnitudes, or length; rows where that is zero stay."""
    rows = matrix(x).astype(np.float32)
    if norm == "MAX":
        size = rows.max(1, keepdims=True, initial=-np.inf)
    elif norm == "L1":
        size = np.abs(rows).sum(1, keepdims=True)
    elif norm == "L2":
        size = np.sqrt((rows * rows).sum(1, keepdims=True))
    else:
        msg = f"norm is {norm!r}; expected MAX, L1 or L2"
        raise KernelError(msg)
    return (rows / np.where(size == 0, np.float32(1), size)).reshape(x.shape)


@kernel("Imputer", since=1, domain=ML)
def imputer_1(
    x: Array,
    *,
    imputed_value_floats: Sequence[float] | None = None,
    imputed_value_int64s: Sequence[int] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Array:
    """Replace entries equal to one value (or NaN) by others, the same for all or one per feature."""
    whole = x.dtype.kind in "iu"
    values = imputed_value_int64s if whole else imputed_value_floats
    if not values:
        msg = f"an input of {describe(x)} needs imputed_value_{'int64s' if whole else 'floats'}"
        raise KernelError(msg)
    replaced = replaced_value_int64 if whole else replaced_value_float
    is_replaced = np.isnan(x) if replaced != replaced else x == x.dtype.type(replaced)
    return np.where(is_replaced, _per_feature(values, x, x.dtype), x)


@kernel("FeatureVectorizer", since=1, domain=ML)
def feature_vectorizer_1(*x: Array, inputdimensions: Sequence[int] | None = None) -> Array:
    """Concatenate all inputs in float32, each cropped or zero-padded to its given width."""
    tables = [matrix(part) for part in x]
    widths = [t.shape[1] for t in tables] if inputdimensions is None else list(inputdimensions)
    if not tables or len(widths) != len(tables) or min(widths) < 0 or len({len(t) for t in tables}) != 1:
        msg = f"inputs of shapes {[t.shape for t in tables]} with inputdimensions {widths}; expected a width for each"
        raise KernelError(msg)
    result = zeros((len(tables[0]), sum(widths)), np.float32)
    start = 0
    for table, width in zip(tables, widths, strict=True):
        taken = min(width, table.shape[1])
        result[:, start : start + taken] = table[:, :taken]
        start += width
    return result


@kernel("OneHotEncoder", since=1, domain=ML)
def one_hot_encoder_1(
    x: Array,
    *,
    cats_int64s: Sequence[int] | None = None,
    cats_strings: Sequence[str] | None = None,
    zeros: int = 1,
) -> Array:
    """One-hot encode along a new last axis; an unknown category gives zeros, or an error."""
    categories = class_labels(cats_int64s, cats_strings)
    keys = x if x.dtype.kind == "O" else x.astype(np.int64)
    if (keys.dtype.kind == "O") != (categories.dtype.kind == "O"):
        given = f"an input of {describe(x)} and categories of {describe(categories)} cannot be compared"
        msg = f"{given}; expected texts in both, or numbers"
        raise KernelError(msg)
    places = _Lookup(categories, last=False).places(keys)
    if not zeros and (places < 0).any():
        msg = f"an element is not among the {len(categories)} categories; expected one of them, as zeros is 0"
        raise KernelError(msg)
    check_size((*x.shape, len(categories)), np.float32)
    return np.asarray(places[..., None] == np.arange(len(categories)), np.float32)


# --- looking values up -----------------------------------------------------------------------------------------


class _Lookup:
    """Vectorized lookup of values in a list of keys; -1 for missing ones. NaN equals NaN."""

    def __init__(self, keys: Array, *, last: bool) -> None:
        """`last`: of a repeated key use the last position, else the first."""
        pairs = list(enumerate(keys.tolist()))
        self._where = {_nan_key(k): i for i, k in (pairs if last else reversed(pairs))}
        self._keys = None
        if keys.dtype.kind in "iuf" and len(keys):
            order = {k: i for k, i in self._where.items() if k is not _NAN}
            self._keys = np.array(sorted(order), keys.dtype)
            self._order = np.array([order[k] for k in sorted(order)], np.intp)

    def places(self, values: Array) -> Array:
        """Return the index of the key equal to each value, in the shape of the values."""
        if self._keys is None or values.dtype.kind not in "iuf" or not len(self._keys):
            indices = [self._where.get(_nan_key(v), -1) for v in values.reshape(-1).tolist()]
            return np.array(indices, np.intp).reshape(values.shape)
        spot = np.minimum(np.searchsorted(self._keys, values), len(self._keys) - 1)
        places = np.where(self._keys[spot] == values, self._order[spot], -1)
        if values.dtype.kind == "f" and _NAN in self._where:
            places = np.where(np.isnan(values), self._where[_NAN], places)
        return np.asarray(places, np.intp)


_NAN = object()


def _nan_key(value: Any) -> Any:
    return _NAN if value != value else value


class _Mapping:
    """Replaces each element by the value of its key, the first or last of a repeated one, or by the default."""

    def __init__(self, keys: Array, values: Array, default: Any, *, last: bool = False) -> None:
        if len(keys) != len(values):
            msg = f"{len(keys)} keys and {len(values)} values; expected as many of each"
            raise KernelError(msg)
        self._keys, self._lookup = keys, _Lookup(keys, last=last)
        self._table = np.empty(len(values) + 1, values.dtype)
        self._table[:-1] = values
        self._table[-1] = default

    def __call__(self, x: Array) -> Array:
        """Return the mapped values in the shape of `x`."""
        if (x.dtype.kind == "O") != (self._keys.dtype.kind == "O"):
            given = f"an input of {describe(x)} and keys of {describe(self._keys)} cannot be compared"
            msg = f"{given}; expected texts in both, or numbers"
            raise KernelError(msg)
        check_size(x.shape, self._table.dtype)
        return np.asarray(self._table[self._lookup.places(x), ...])


def _column(values: Sequence[Any], dtype: Any) -> Array:
    column = np.empty(len(values), dtype)
    column[:] = list(values)
    return column


@compiled("CategoryMapper", since=1, domain=ML)
def category_mapper_1(
    *,
    cats_int64s: Sequence[int] | None = None,
    cats_strings: Sequence[str] | None = None,
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Callable[[Array], Array]:
    """Strings to integers, or integers to strings."""
    whole, text = _column(cats_int64s or (), np.int64), _column(cats_strings or (), object)
    return _either_way(text, whole, default_int64, default_string)


def _either_way(texts: Array, numbers: Array, default_number: int, default_text: str) -> Callable[[Array], Array]:
    """Return a function that maps texts to numbers, and numbers to texts; it builds the table it needs once."""

    @cache
    def mapping(is_text: bool) -> _Mapping:
        return _Mapping(texts, numbers, default_number) if is_text else _Mapping(numbers, texts, default_text)

    return lambda x: mapping(x.dtype.kind == "O")(x)


@compiled("LabelEncoder", since=1, domain=ML)
def label_encoder_1(
    *, classes_strings: Sequence[str] | None = None, default_int64: int = -1, default_string: str = "_Unused"
) -> Callable[[Array], Array]:
    """Map strings to their index in the list, or indices to strings."""
    text = _column(classes_strings or (), object)
    return _either_way(text, np.arange(len(text)), default_int64, default_string)


@compiled("LabelEncoder", since=2, domain=ML)
def label_encoder_2(
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    keys_floats: Sequence[float] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_strings: Sequence[str] | None = None,
    values_floats: Sequence[float] | None = None,
    values_int64s: Sequence[int] | None = None,
    values_strings: Sequence[str] | None = None,
) -> _Mapping:
    """Any of three types to any of three, by lists of keys and values."""
    return _mapping(locals(), last=False)


def _one_list(a: dict[str, Any], what: str) -> tuple[Array, Any]:
    """Return the keys or values, whichever list of them is given, as an array, and the default of its type."""
    kinds = (("floats", np.float32, "float"), ("int64s", np.int64, "int64"), ("strings", object, "string"))
    lists = [(a[f"{what}_{name}"], dtype, a[f"default_{kind}"]) for name, dtype, kind in kinds]
    present = [(_column(list_, dtype), default) for list_, dtype, default in lists if list_ is not None]
    if len(present) != 1:
        msg = f"{len(present)} lists of {what} are given; expected one"
        raise KernelError(msg)
    return present[0]


@compiled("LabelEncoder", since=4, domain=ML)
def label_encoder_4(
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Array | None = None,
    keys_floats: Sequence[float] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_strings: Sequence[str] | None = None,
    keys_tensor: Array | None = None,
    values_floats: Sequence[float] | None = None,
    values_int64s: Sequence[int] | None = None,
    values_strings: Sequence[str] | None = None,
    values_tensor: Array | None = None,
) -> _Mapping:
    """With keys, values and default as tensors of any type."""
    return _mapping(locals(), last=True)


def _mapping(a: dict[str, Any], *, last: bool) -> _Mapping:
    """Return the mapping that the attributes of a LabelEncoder describe."""
    keys, values, default_tensor = (a.get(name) for name in ("keys_tensor", "values_tensor", "default_tensor"))
    if keys is None:
        keys, _ = _one_list(a, "keys")
    if values is None:
        values, default = _one_list(a, "values")
    else:
        default = "_Unused" if values.dtype.kind == "O" else -0.0 if values.dtype.kind == "f" else -1
    if default_tensor is not None:
        if default_tensor.size != 1:
            msg = f"default_tensor has shape {default_tensor.shape}; expected one value"
            raise KernelError(msg)
        default = default_tensor.reshape(-1)[0]
    return _Mapping(keys.reshape(-1), values.reshape(-1), default, last=last)


# --- maps ------------------------------------------------------------------------------------------------------


@kernel("DictVectorizer", since=1, domain=ML)
def dict_vectorizer_1(
    x: Map, *, int64_vocabulary: Sequence[int] | None = None, string_vocabulary: Sequence[str] | None = None
) -> Array:
    """Return the values of a map in the order of the vocabulary, zero or empty for missing keys; [1, length]."""
    vocabulary = class_labels(int64_vocabulary, string_vocabulary).tolist()
    values = [_map(x).get(key) for key in vocabulary]
    dtype = _value_dtype(list(x.values()))
    empty = "" if dtype.kind == "O" else 0
    return _column([empty if v is None else v for v in values], dtype).reshape(1, -1)


def _map(x: Any) -> Map:
    if not isinstance(x, dict):
        msg = f"the input is {describe(x)}; expected a map"
        raise KernelError(msg)
    return x


def _value_dtype(values: Sequence[Any]) -> np.dtype[Any]:
    first = values[0] if values else 0.0
    if isinstance(first, np.generic):
        return first.dtype
    kinds: tuple[tuple[type, Any], ...] = ((str, object), (int, np.int64), (float, np.float32))
    return np.dtype(next((dtype for kind, dtype in kinds if isinstance(first, kind)), np.float32))


_CASTS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "TO_FLOAT": (np.float32, float),
    "TO_INT64": (np.int64, lambda v: int(float(v)) if isinstance(v, str) else int(v)),
    "TO_STRING": (object, lambda v: v if isinstance(v, str) else str(cast(np.asarray(v), object))),
}


@kernel("CastMap", since=1, domain=ML)
def cast_map_1(x: Map, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> Array:
    """Return the values of a map by ascending key, dense or at the index that the key is; [1, length]."""
    if cast_to not in _CASTS or map_form not in ("DENSE", "SPARSE"):
        msg = f"cast_to is {cast_to!r} and map_form {map_form!r}; expected {', '.join(_CASTS)} and DENSE or SPARSE"
        raise KernelError(msg)
    dtype, convert = _CASTS[cast_to]
    try:
        entries = [(int(key), convert(value)) for key, value in sorted(_map(x).items())]
    except (TypeError, ValueError, OverflowError):
        msg = f"a map entry cannot be converted; expected whole numbers as keys, and values for {cast_to}"
        raise KernelError(msg) from None
    if map_form == "DENSE":
        return _column([value for _, value in entries], dtype).reshape(1, -1)
    if entries and not 0 <= entries[0][0] <= entries[-1][0] < max_map:
        msg = f"keys from {entries[0][0]} to {entries[-1][0]}; expected within [0, {max_map - 1}]"
        raise KernelError(msg)
    check_size((max_map,), dtype)
    result = np.full(max_map, "" if dtype is object else 0, dtype)
    for key, value in entries:
        result[key] = value
    return result.reshape(1, -1)


@kernel("ZipMap", since=1, domain=ML)
def zip_map_1(
    x: Array, *, classlabels_int64s: Sequence[int] | None = None, classlabels_strings: Sequence[str] | None = None
) -> list[Map]:
    """One map per row from the labels to the columns."""
    labels = class_labels(classlabels_int64s, classlabels_strings).tolist()
    rows = matrix(x)
    if rows.shape[1] != len(labels):
        msg = f"{rows.shape[1]} columns for {len(labels)} labels; expected as many of each"
        raise KernelError(msg)
    return [dict(zip(labels, row, strict=True)) for row in rows.tolist()]
