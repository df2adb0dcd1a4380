"""Input values generated from declared shapes, or read from files and test data folders.

Nothing here unpickles or executes the content of a file.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import Message

from onnx_workbench.exec.inputs.feeds import normalise
from onnx_workbench.exec.inputs.generated import Distribution, bytes_needed, constant_array, random_array, range_array
from onnx_workbench.exec.inputs.images import SUFFIXES as IMAGE_SUFFIXES
from onnx_workbench.exec.inputs.images import ImageOptions, read_image
from onnx_workbench.exec.values.arrays import Array, RuntimeValue, SparseArray
from onnx_workbench.exec.values.numpy_errors import in_plain_words
from onnx_workbench.exec.values.statistics import nbytes
from onnx_workbench.model.budget import default_input_limit
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.source import require_regular
from onnx_workbench.model.io.tensors.array_files import npz_members, read_arrays, read_tensor
from onnx_workbench.model.io.tensors.csv_files import read_csv
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.types import (
    UNNAMED,
    ElementType,
    MapType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Type,
)
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.elements import is_element, parse_elements, strings

#: Names and positions of dimensions whose default size is 1.
_BATCH = re.compile(r"^(n|b|bs|batch.*|.*batch|.*batch_size|none|unk__\d+)$", re.IGNORECASE)
_DEFAULT_DIM = 8
_DEFAULT_IMAGE = 224

#: Exceptions for broken files.
_BROKEN = (OSError, ValueError, OverflowError, EOFError, MemoryError, zlib.error)

_TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".json")
_LONGEST_TEXT = 64 << 20  # bytes of a file that is read as text: its numbers and lists take up to 40 times as much

_Proto = TypeVar("_Proto", bound=Message)


@dataclass(frozen=True, slots=True)
class Random:
    """Random numbers with a seed: ``uniform`` over [low, high], or ``normal`` with mean low and deviation high.

    Default bounds depend on the element type. Integers include high.
    """

    distribution: Distribution = "uniform"
    low: float | None = None
    high: float | None = None
    seed: int | None = None  # None: the seed of the run


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value everywhere, or a list of the input's shape."""

    value: Any


@dataclass(frozen=True, slots=True)
class Range:
    """start, start + step, … in row-major order."""

    start: float = 0
    step: float = 1


@dataclass(frozen=True, slots=True)
class File:
    """A .npy, .npz (one array, or `key`), .pb, .json, .csv, .txt or image file."""

    path: Path
    key: str = ""
    image: ImageOptions | None = None


InputSource = Random | Constant | Range | File


@dataclass(slots=True)
class DataSet:
    """One test_data_set_* folder: inputs and expected outputs by name."""

    name: str
    inputs: dict[str, RuntimeValue] = field(default_factory=dict)
    outputs: dict[str, RuntimeValue] = field(default_factory=dict)


# --- from declared shapes --------------------------------------------------------------------------------------


def symbols(graph: Graph) -> dict[str, int]:
    """Return the symbolic dimensions of the inputs with default sizes: 1 for a batch, 224 for an image, else 8.

    The key of a dimension without a name is ``input[axis]``.
    """
    found: dict[str, int] = {}
    for value in graph.required_inputs:
        dims = _dims(value.type)
        for axis, dim in enumerate(dims or ()):
            if not isinstance(dim, int) or dim < 0:
                found.setdefault(symbol(value, axis), _default_dim(dim, axis, dims or ()))
    return found


def symbol_names(graph: Graph) -> list[str]:
    """Return the symbolic dimensions of all inputs, including those with a default value; see `symbols`."""
    dims = ((v, axis, dim) for v in graph.inputs for axis, dim in enumerate(_dims(v.type) or ()))
    return [*dict.fromkeys(symbol(v, axis) for v, axis, dim in dims if not isinstance(dim, int) or dim < 0)]


def symbol(value: Value, axis: int) -> str:
    """Return the key of a symbolic or unknown dimension in `symbols`."""
    dims = _dims(value.type) or ()
    dim = dims[axis]
    return dim if isinstance(dim, str) and dim not in ("", UNNAMED) else f"{value.name}[{axis}]"


def _dims(declared: Type | None) -> tuple[Any, ...] | None:
    while isinstance(declared, (OptionalType, SequenceType)):
        declared = declared.element
    if isinstance(declared, (TensorType, SparseTensorType)) and declared.shape is not None:
        return declared.shape.dims
    return None


def _default_dim(dim: Any, axis: int, dims: Sequence[Any]) -> int:
    if isinstance(dim, str) and _BATCH.match(dim):
        return 1
    if axis == 0:
        return 1
    if len(dims) == 4 and (axis >= 2 or (dims[3] in (1, 3, 4) and axis == 1)):
        return _DEFAULT_IMAGE
    return _DEFAULT_DIM


def make_feeds(
    graph: Graph,
    *,
    sources: Mapping[str, InputSource] | None = None,
    sizes: Mapping[str, int] | None = None,
    given: Mapping[str, RuntimeValue] | None = None,
    seed: int = 0,
    limit: int | None = None,
    progress: Progress = SILENT,
) -> dict[str, RuntimeValue]:
    """Return `given` and a value for each other required input: from `sources` by name, else random.

    `sizes` maps symbolic dimensions to numbers (see `symbols`); other symbols get their size in the given and read
    values. `limit`: bytes of all values made or read (a quarter of the machine's memory by default). ModelError if a
    source does not fit, or if the limit is exceeded. See `contradictions`.
    """
    feeds = dict(given or {})
    left = (default_input_limit() if limit is None else limit) - sum(map(nbytes, feeds.values()))
    wanted = {
        v: ((sources or {}).get(v.name, Random()), seed + index)
        for index, v in enumerate(graph.required_inputs)
        if v.name not in feeds
    }
    for value, (source, _) in wanted.items():
        if isinstance(source, File):
            feeds[value.name] = make_value(value, source, {}, limit=left, progress=progress)
            left -= nbytes(feeds[value.name])
    constants = {v.name: s.value for v, (s, _) in wanted.items() if isinstance(s, Constant)}
    dims = symbols(graph) | sizes_of(graph, constants, least=2) | sizes_of(graph, feeds) | dict(sizes or {})
    for value, (source, own_seed) in wanted.items():
        if value.name not in feeds:
            feeds[value.name] = make_value(value, source, dims, seed=own_seed, limit=left, progress=progress)
            left -= nbytes(feeds[value.name])
    return feeds


def contradictions(
    graph: Graph, feeds: Mapping[str, RuntimeValue], sizes: Mapping[str, int] | None = None
) -> list[str]:
    """Return descriptions of symbolic dimensions whose sizes conflict between values or with `sizes`.

    Not an error: declarations in files are often wrong.
    """
    known: dict[str, dict[int, str]] = {}  # the first input of each size
    for name, source, size in _bindings(graph, feeds):
        known.setdefault(name, {}).setdefault(size, source)
    found = []
    for name, sources in known.items():
        (size, source), *others = sources.items()
        chosen = (sizes or {}).get(name, size)
        if others:
            found.append(f"{name} is {size} in {source!r} and {others[0][0]} in {others[0][1]!r}")
        elif chosen != size:
            found.append(f"{name} is {size} in {source!r}, but {chosen} was chosen")
    return found


def sizes_of(graph: Graph, values: Mapping[str, Any], *, least: int = 0) -> dict[str, int]:
    """Return the sizes of symbols in values by input: the first one of at least `least` (smaller may be broadcast)."""
    found: dict[str, int] = {}
    for name, _, size in _bindings(graph, values):
        if size >= least:
            found.setdefault(name, size)
    return found


def _bindings(graph: Graph, values: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield each symbol with its input and its size there, for values of the declared rank."""
    for value in graph.inputs:
        content = values.get(value.name)
        if content is None or isinstance(value.type, (SequenceType, MapType)):
            continue
        try:
            shape = content.shape if isinstance(content, SparseArray) else np.shape(content)
        except ValueError:  # rows of different lengths
            continue
        dims = _dims(value.type) or ()
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=False)):
            if len(shape) == len(dims) and (not isinstance(dim, int) or dim < 0):
                yield symbol(value, axis), value.name, size


def make_value(
    value: Value,
    source: InputSource,
    sizes: Mapping[str, int],
    *,
    seed: int = 0,
    limit: int | None = None,
    progress: Progress = SILENT,
) -> RuntimeValue:
    """Return a value for one input; arguments as in `make_feeds`. Reads a file if the source is one."""
    limit = default_input_limit() if limit is None else limit
    if isinstance(source, File):
        found = normalise(read_value(source, value.type, limit), value.type, value.name)
        if nbytes(found) > limit:
            msg = f"{source.path.name} has {nbytes(found):,} bytes; {limit:,} are left of what all inputs may take"
            raise ModelError(f"No value can be generated for {value.name!r}", msg)
        return found
    return _make(value, value.type, source, sizes, seed, limit, progress)


def _make(
    value: Value,
    declared: Type | None,
    source: InputSource,
    sizes: Mapping[str, int],
    seed: int,
    limit: int,
    progress: Progress,
) -> RuntimeValue:
    if isinstance(declared, OptionalType):
        return _make(value, declared.element, source, sizes, seed, limit, progress)
    if isinstance(declared, SequenceType):
        return [_make(value, declared.element, source, sizes, seed, limit, progress)]
    if isinstance(declared, MapType):
        return normalise(source.value, declared, value.name) if isinstance(source, Constant) else {}
    return _make_tensor(value, declared, source, sizes, seed, limit, progress)


def settle(value: Value, source: InputSource) -> InputSource:
    """Resolve a source using the graph, so that `make_value` may be called on another thread."""
    kind = value.type.element_type if isinstance(value.type, TensorType) else None
    if not isinstance(source, Random) or not isinstance(kind, ElementType) or not kind.is_int:
        return source
    low, high = _integer_range(value, source, kind)
    return replace(source, low=low, high=high)


def _make_tensor(
    value: Value,
    declared: Type | None,
    source: InputSource,
    sizes: Mapping[str, int],
    seed: int,
    limit: int,
    progress: Progress,
) -> RuntimeValue:
    kind = declared.element_type if isinstance(declared, (TensorType, SparseTensorType)) else None
    kind = kind if isinstance(kind, ElementType) and kind is not ElementType.UNDEFINED else ElementType.FLOAT
    dims = _dims(declared) or ()
    shape = tuple(
        dim if isinstance(dim, int) and dim >= 0 else sizes[symbol(value, axis)] for axis, dim in enumerate(dims)
    )
    _check_shape(value, shape, kind, limit)
    match source:
        case Constant():
            return constant_array(source.value, shape, kind, value.name, progress)
        case Range() if kind is not ElementType.STRING:
            return range_array(shape, kind, source.start, source.step, progress)
        case Random():
            try:
                bounds = _bounds(value, source, kind)
                own_seed = seed if source.seed is None else source.seed
                return random_array(shape, kind, bounds, source.distribution, seed=own_seed, progress=progress)
            except (ValueError, OverflowError) as error:
                raise ModelError(f"No random numbers can be generated for {value.name!r}", str(error)) from None
    msg = f"{value.name!r} ({kind.text}) cannot be generated from {source!r}"
    raise ModelError("No such source", msg)


def _check_shape(value: Value, shape: tuple[int, ...], kind: ElementType, limit: int) -> None:
    """Check the shape of a value before it is allocated. `limit`: bytes left for the inputs."""
    if any(dim < 0 for dim in shape) or bytes_needed(shape, kind) > limit:
        size = f"{list(shape)}, {bytes_needed(shape, kind):,} bytes"
        msg = f"its shape would be {size}; {max(0, limit):,} are left of what all inputs may take"
        raise ModelError(f"No value can be generated for {value.name!r}", msg)


def _bounds(value: Value, source: Random, kind: ElementType) -> tuple[float, float]:
    if kind.is_int:
        return _integer_range(value, source, kind)
    return (0.0 if source.low is None else source.low), (1.0 if source.high is None else source.high)


#: Types of pixels and quantized numbers, which use their full range.
_WHOLE_RANGE = {ElementType.UINT8: (0, 255), ElementType.INT8: (-128, 127)}


def _integer_range(value: Value, source: Random, kind: ElementType) -> tuple[int, int]:
    """Return integer bounds that are valid for the input's consumers: rows of the tables it indexes, ones for a mask.

    ValueError or OverflowError if the bounds are not numbers.
    """
    if source.low is not None or source.high is not None:
        low = int(source.low or 0)
        return low, int(low + 1 if source.high is None else source.high)
    tables = [rows for user, index in value.uses if isinstance(user, Node) for rows in _table_rows(user, index)]
    if tables:
        return 0, max(0, min(tables) - 1)
    return (1, 1) if "mask" in value.name.lower() else _WHOLE_RANGE.get(kind, (0, 1))


#: The input of an operator that is an index into its first input, and along which axis if that is no attribute.
_INDICES = {"Gather": (1, None), "GatherElements": (1, None), "RoiAlign": (2, 0), "ScatterElements": (1, None)}


def _table_rows(node: Node, index: int) -> Iterable[int]:
    """Yield the number of rows that an input indexes; 1 if it is a dimension without a number."""
    position, axis = _INDICES.get(node.op_type, (-1, None))
    table = node.inputs[0] if node.inputs else None
    if index != position or table is None:
        return
    if axis is None:
        given = node.attributes.get("axis")
        axis = given.value if given is not None and isinstance(given.value, int) else 0
    shape = table.type.shape if isinstance(table.type, TensorType) else None
    dims = tuple(table.initializer.shape) if table.initializer is not None else () if shape is None else shape.dims
    if -len(dims) <= axis < len(dims):
        rows = dims[axis]
        yield rows if isinstance(rows, int) else 1


# --- files -----------------------------------------------------------------------------------------------------


def read_value(source: File | Path | str, declared: Type | None = None, limit: int | None = None) -> RuntimeValue:
    """Read a value of at most `limit` bytes from a file, by its suffix. ModelError if it cannot be read."""
    limit = default_input_limit() if limit is None else limit
    file = source if isinstance(source, File) else File(Path(source))
    path = file.path
    suffix = path.suffix.lower()
    title = f"{path.name} cannot be read as a value"
    if path.is_dir():
        raise ModelError(title, "it is a folder", str(path))
    try:
        require_regular(path)
        _refuse_long(path, min(limit, _LONGEST_TEXT) if suffix in _TEXT_SUFFIXES else limit)
        if suffix in IMAGE_SUFFIXES:
            return read_image(path, file.image or ImageOptions(), declared)
        match suffix:
            case ".npy" | ".npz":
                return read_tensor(path, member=file.key).numpy()
            case ".pb":
                return read_proto(path, declared, limit)
            case ".json":
                return normalise(_json(path), declared, path.name)
            case ".csv" | ".tsv":
                dims = _dims(declared)
                shape = None if dims is None or not all(isinstance(dim, int) for dim in dims) else dims
                table = read_csv(path, _element_kind(declared, ElementType.FLOAT), shape).numpy()
                return _as_declared(table, declared)
            case ".txt":
                lines = path.read_text("utf-8-sig").splitlines()
                kind = _element_kind(declared, ElementType.STRING)
                if kind is ElementType.STRING:
                    return strings(np.array(lines, object))
                rows = [re.split(r"[\s,;]+", line.strip()) for line in lines if line.strip()]
                return _as_declared(_table(rows, kind), declared)
    except ModelError:
        raise
    except _BROKEN as error:
        raise ModelError(title, _reason(error), str(path)) from None
    known = ", ".join([".npy", ".npz", ".pb", ".json", ".csv", ".tsv", ".txt", *sorted(IMAGE_SUFFIXES)])
    raise ModelError(title, f"its suffix is {suffix or 'missing'}; expected one of {known}", str(path))


def _refuse_long(path: Path, limit: int) -> None:
    size = path.stat().st_size if path.exists() else 0
    if size > limit:
        msg = f"it has {size:,} bytes; at most {limit:,} of such a file are read"
        if path.suffix.lower() in _TEXT_SUFFIXES:
            msg += "; .npy and .npz files may be larger"
        raise ValueError(msg)


def read_npz(
    path: Path | str, limit: int | None = None, wanted: Collection[str] = (), progress: Progress = SILENT
) -> dict[str, RuntimeValue]:
    """Read the arrays of an .npz file by name, of at most `limit` bytes; only the `wanted` ones if it has any of them.

    ModelError if it cannot be read.
    """
    limit = default_input_limit() if limit is None else limit
    return {name: tensor.numpy() for name, tensor in read_arrays(path, wanted, limit, progress)}


def read_inputs(
    path: Path, graph: Graph, limit: int | None = None, progress: Progress = SILENT
) -> tuple[dict[str, RuntimeValue], list[str]]:
    """Read values of inputs by name from an .npz file, or from a .json file with an object of nested lists.

    Also returns the names in the file that are no inputs, whose values are not read. Values of a .json file are
    converted to the types that the graph declares. ModelError if the file cannot be read, or a value does not fit.
    """
    types = {value.name: value.type for value in (*graph.initializers, *graph.inputs)}
    limit = default_input_limit() if limit is None else limit
    is_json = path.suffix.lower() == ".json"
    try:
        require_regular(path)
        if is_json:
            _refuse_long(path, min(limit, _LONGEST_TEXT))
        found = _json(path) if is_json else dict.fromkeys(npz_members(path))
    except ModelError:
        raise
    except _BROKEN as error:
        raise ModelError(f"{path.name} cannot be read", _reason(error), str(path)) from None
    if not isinstance(found, dict):
        raise ModelError(f"{path.name} cannot be read", "Expected an object with a value for each input.", str(path))
    wanted = [name for name in found if name in types]
    ignored = [name for name in found if name not in types]
    if is_json:
        return {name: normalise(found[name], types[name], name) for name in progress.paced(wanted, 1)}, ignored
    return read_npz(path, limit, set(wanted), progress) if wanted else {}, ignored


def _json(path: Path) -> Any:
    """Read a JSON file; ValueError if it is broken or nested too deeply."""
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except RecursionError:
        msg = "its lists are nested too deeply"
        raise ValueError(msg) from None


def _reason(error: Exception) -> str:
    """Return the message of an error of reading a file, without the system's error number and path."""
    return (isinstance(error, OSError) and error.strerror) or in_plain_words(error) or str(error)


def _element_kind(declared: Type | None, unknown: ElementType) -> ElementType:
    kind = declared.element_type if isinstance(declared, TensorType) else None
    return kind if isinstance(kind, ElementType) and kind is not ElementType.UNDEFINED else unknown


def _table(rows: Sequence[list[str]], kind: ElementType) -> Array:
    """Parse rows of numbers, optionally below a row of titles."""
    if len({len(row) for row in rows}) > 1:
        msg = f"rows have {min(map(len, rows))} to {max(map(len, rows))} columns; a tensor needs equal ones"
        raise ValueError(msg)
    has_titles = len(rows) > 1 and not any(is_element(text, kind) for text in rows[0])
    cells = rows[has_titles:]
    return parse_elements([*chain.from_iterable(cells)], kind).reshape(len(cells), -1)


def _as_declared(table: Array, declared: Type | None) -> Array:
    """Return a table of one row or column as a vector if the type declares one."""
    return table.reshape(-1) if len(_dims(declared) or (0, 0)) == 1 and 1 in table.shape else table


def read_proto(path: Path, declared: Type | None = None, limit: int | None = None) -> RuntimeValue:
    """Read a TensorProto, SequenceProto, OptionalProto, MapProto or SparseTensorProto, by the declared type."""
    from google.protobuf.message import DecodeError

    try:
        require_regular(path)
        _refuse_long(path, default_input_limit() if limit is None else limit)
        return decode_proto(path.read_bytes(), declared)
    except ModelError:
        raise
    except (DecodeError, TypeError, KeyError, *_BROKEN) as error:
        reason = f"its bytes are not a {declared or 'tensor'}" if isinstance(error, DecodeError) else _reason(error)
        raise ModelError(f"{path.name} cannot be read as a value", reason, str(path)) from None


def decode_proto(content: bytes, declared: Type | None = None) -> RuntimeValue:
    """Decode the same from bytes; a tensor if the type is unknown."""
    import onnx
    from onnx import numpy_helper

    match declared:
        case SequenceType():
            return _clean(numpy_helper.to_list(_self_contained(onnx.SequenceProto.FromString(content))))
        case OptionalType():
            return _clean(numpy_helper.to_optional(_self_contained(onnx.OptionalProto.FromString(content))))
        case MapType():
            return _clean(numpy_helper.to_dict(_self_contained(onnx.MapProto.FromString(content))))
        case SparseTensorType():
            sparse = _self_contained(onnx.SparseTensorProto.FromString(content))
            values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
            return SparseArray(values, indices, tuple(sparse.dims))
        case _:
            return _clean(numpy_helper.to_array(_self_contained(onnx.TensorProto.FromString(content))))


def _self_contained(proto: _Proto) -> _Proto:
    """Return the message; ValueError if a tensor in it refers to another file, which is not opened."""
    import onnx

    pending: list[Message] = [proto]
    while pending:
        message = pending.pop()
        if isinstance(message, onnx.TensorProto):
            if message.data_location == onnx.TensorProto.EXTERNAL:
                msg = "its values are in another file; expected them in this one"
                raise ValueError(msg)
            continue
        for field_, content in message.ListFields():
            if field_.message_type is not None:
                pending.extend([content] if isinstance(content, Message) else content)
    return proto


def _clean(value: Any) -> RuntimeValue:
    if isinstance(value, np.ndarray):
        return strings(value) if value.dtype.kind in "OUS" else value
    if isinstance(value, (list, tuple)):
        return [_clean(v) for v in value]
    if isinstance(value, dict):
        return {k: _clean(v) for k, v in value.items()}
    return value


# --- test data folders -----------------------------------------------------------------------------------------


def data_sets(folder: Path, graph: Graph) -> list[DataSet]:
    """Return the test data in the folder of a model: its test_data_set_* folders in order, and pairs of files.

    Pairs are inputs.npz and outputs.npz, or inputs_NAME.npz and outputs_NAME.npz; the data set is named as the inputs.
    ModelError as for `read_data_set`.
    """
    found = [read_data_set(path, graph) for path in sorted(folder.glob("test_data_set_*"), key=_number)]
    for path in sorted(folder.glob("inputs*.npz"), key=_number):
        expected = path.with_name("outputs" + path.name.removeprefix("inputs"))
        if expected.is_file():
            for file in (path, expected):
                _require_inside(file, folder.resolve())
            found.append(DataSet(path.name, read_npz(path), read_values(expected, graph.outputs)))
    return found


def read_values(path: Path, values: Iterable[Value]) -> dict[str, RuntimeValue]:
    """Read the values of an .npz file by name; sequences and maps are reassembled from the arrays of their parts."""
    return reassembled(read_npz(path), values)


def reassembled(arrays: dict[str, RuntimeValue], values: Iterable[Value]) -> dict[str, RuntimeValue]:
    """Return arrays by name with the sequences and maps among `values` in place of the arrays of their parts."""
    arrays = dict(arrays)
    found: dict[str, RuntimeValue] = {}
    for value in values:
        if isinstance(value.type, (SequenceType, MapType)):
            taken = {name for name in arrays if name.startswith((f"{value.name}[", f"{value.name}__"))}
            if taken:
                found[value.name] = _assembled({name: arrays.pop(name) for name in taken}, value.name, value.type)
    return arrays | found


def _assembled(arrays: dict[str, RuntimeValue], name: str, declared: Type | None) -> RuntimeValue:
    """Return a sequence or map from the arrays of its parts; maps of one sequence may share their keys."""
    if isinstance(declared, SequenceType):
        keys, rows = arrays.get(f"{name}__map_keys"), arrays.get(f"{name}__map_values")
        if isinstance(keys, np.ndarray) and isinstance(rows, np.ndarray) and rows.shape[1:] == keys.shape:
            return [dict(zip(keys.tolist(), row, strict=True)) for row in rows.tolist()]
        items: list[RuntimeValue] = []
        while any(key == (start := f"{name}[{len(items)}]") or key.startswith(f"{start}__") for key in arrays):
            items.append(_assembled(arrays, f"{name}[{len(items)}]", declared.element))
        return items
    if isinstance(declared, MapType):
        keys, values = arrays.get(f"{name}__keys"), arrays.get(f"{name}__values")
        if isinstance(keys, np.ndarray) and isinstance(values, np.ndarray) and keys.shape == values.shape:
            return dict(zip(keys.tolist(), values.tolist(), strict=True))
        raise ModelError("The test data does not fit", f"{name} is a map; expected {name}__keys and {name}__values")
    return arrays.get(name)


def _require_inside(path: Path, folder: Path) -> None:
    """Raise ModelError for a link that leads out of the folder: an untrusted folder must not expose other files."""
    if not path.resolve().is_relative_to(folder):
        raise ModelError("The test data is outside its folder", f"{path} is a link to {path.resolve()}.", str(path))


def _number(path: Path) -> tuple[int, str]:
    digits = re.findall(r"\d+", path.name)
    return (int(digits[-1]) if digits else -1, path.name)


def read_data_set(folder: Path, graph: Graph, limit: int | None = None) -> DataSet:
    """Read a folder of input_*.pb and output_*.pb (or .npz files inputs and outputs).

    ModelError if one is broken or links to a file outside the model's folder, or if they exceed `limit` bytes.
    """
    left = default_input_limit() if limit is None else limit
    result = DataSet(folder.name)
    inside = folder.parent.resolve()
    for kind, values, found in (
        ("input", graph.required_inputs or list(graph.inputs), result.inputs),
        ("output", list(graph.outputs), result.outputs),
    ):
        archive = folder / f"{kind}s.npz"
        if archive.is_file():
            _require_inside(archive, inside)
            found.update(read_npz(archive, left))
            left -= sum(map(nbytes, found.values()))
            continue
        files = sorted(folder.glob(f"{kind}_*.pb"), key=_number)
        if kind == "input" and len(files) == len(graph.inputs):
            values = list(graph.inputs)
        for path in files:
            position = _number(path)[0]
            if not 0 <= position < len(values):
                raise ModelError("The test data does not fit", f"{path.name}: the graph has {len(values)} {kind}s")
            _require_inside(path, inside)
            value = found[values[position].name] = read_proto(path, values[position].type, left)
            left -= nbytes(value)
    return result
