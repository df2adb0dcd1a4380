"""Numbers or texts per node from elsewhere: tables, profiles of other runtimes, node data of other viewers.

Nothing of them enters a model; `match` finds the nodes that their names mean.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.source import require_regular
from onnx_workbench.model.ir.graph import Model, Node
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.formatting import display, plural

#: Numbers of nodes, or texts of nodes: never both.
NodeValues = Mapping[Node, float] | Mapping[Node, str]

_LARGEST_FILE = 64 << 20
_LISTED = 3  # names in a message
_TIME = "Time (ms)"
_ORT_TIME = "_kernel_time"
#: What ONNX Runtime adds to the name of a node that it fused, or whose layout it changed.
_ORT_FUSED = re.compile(r"^fused |_nchwc$|_nhwc$|_token_\d+$|/duplicated$")
#: What divides the names of the layers that TensorRT fused: ``conv + relu``, ``PWN(a, b)``, ``{ForeignNode[a...b]}``.
_TENSORRT_FUSED = re.compile(r" \+ |\.\.\.|[(){}\[\], ]+")


@dataclass(frozen=True)
class NodeData:
    """Numbers by name, or texts by name where no entry is a number; the names are those of nodes or values.

    `title` is the heading of their column, `others` are entries without a finite number. Of several numbers for a name
    the last one is used; `repeated` are these names. `of_fused`: a name may stand for several nodes, as in a profile;
    the last one, which writes the result, has the number.
    """

    numbers: Mapping[str, float] = field(default_factory=dict)
    title: str = ""
    others: Sequence[tuple[str, str]] = ()
    repeated: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    of_fused: bool = False

    @property
    def names(self) -> Iterable[str]:
        """The names that have a number or text."""
        return self.numbers or self.texts


@dataclass(frozen=True)
class Matched:
    """Numbers or texts of the nodes of a model, and the names that no node or value of it has."""

    values: NodeValues
    title: str
    unknown: Sequence[str]
    count: int  # of names

    def summary(self) -> str:
        """Say how many names matched, and which did not."""
        text = f"{self.count - len(self.unknown):,} of {plural(self.count, 'name')} match"
        return f"{text}; not in the model: {listed(self.unknown)}" if self.unknown else text


def read_node_data(path: Path) -> NodeData:
    """Read numbers or texts by name.

    A CSV file has names and numbers or texts as its first columns, separated by commas, semicolons or tabs; with the
    latter two, decimal commas are accepted. JSON is an object ``{"name": 1.5}``, a list ``[["name", 1.5]]``, a profile
    of ONNX Runtime (`enable_profiling`; milliseconds per run) or TensorRT (``trtexec --exportProfile``), or node data
    of Model Explorer. ModelError for other files.
    """
    expected = "a name and a number or text in each line were expected"
    try:
        require_regular(path)
        if path.stat().st_size > _LARGEST_FILE:
            raise ModelError("The file is too large", f"{path.name} has more than {_LARGEST_FILE >> 20} MB", str(path))
        text = path.read_text("utf-8-sig")
        if path.suffix.lower() == ".json":
            expected = (
                'an object like {"name": 1.5}, a list like [["name", 1.5]], a profile of ONNX Runtime or TensorRT, '
                "or node data of Model Explorer was expected"
            )
            read = _from_json(json.loads(text, object_pairs_hook=_Entries))
        else:
            found = [_columns(text, mark) for mark in "\t;,"]
            read = next((one for one in found if one.numbers), None) or next(
                (one for one in found if one.texts), NodeData()
            )
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise ModelError(f"{path.name} has no data per node", str(error), str(path)) from None
    if not read.names:
        raise ModelError(f"{path.name} has no data per node", expected, str(path))
    return read


def node_data(given: Mapping[str, float | str]) -> NodeData:
    """Return data from numbers or texts by name; ModelError if there is neither."""
    read = _data([(name, value) for name, value in given.items()], has_heading=False)
    if not read.names:
        raise ModelError("There are no data per node", f"Expected names with numbers or texts, not {given!r:.200}")
    return read


def difference(new: NodeData, old: NodeData) -> NodeData:
    """Return numbers of `new` minus those of `old`, of names that both have; ModelError if there are none."""
    shared = [name for name in new.numbers if name in old.numbers]
    if not shared:
        raise ModelError("The two files of node data have no number of the same name", "There is no difference to show")
    numbers = {name: new.numbers[name] - old.numbers[name] for name in shared}
    return NodeData(numbers, f"{new.title}, difference" if new.title else "Difference", of_fused=new.of_fused)


def match(model: Model, data: NodeData, progress: Progress = SILENT) -> Matched:
    """Return the data by node: matched by a node's name, else by that of an output. Reads nodes alone."""
    named: Mapping[str, Any] = data.numbers or data.texts
    values: dict[Node, Any] = {}
    known: dict[str, Node] = {}
    used: set[str] = set()
    for graph in model.graphs():
        for index, node in enumerate(graph.nodes):
            progress.check()
            names = [name for name in (node.name, *(v.name for v in node.outputs if v is not None)) if name]
            if data.of_fused and not node.name:
                names.append(f"{node.op_type}_{index}")  # ONNX Runtime's name for it
            own = next((name for name in names if name in named), None)
            if own is not None:
                values[node] = named[own]
                used.add(own)
            for name in names:
                known.setdefault(name, node)
    unknown = [name for name in named if name not in used]
    for name in unknown if data.of_fused else ():
        writer = _last_of_fused(name, known)
        if writer is not None:
            values[writer] = values.get(writer, 0.0) + named[name]
            used.add(name)
    return Matched(values, data.title or "Data", [name for name in unknown if name not in used], len(named))


def matched(model: Model, data: NodeData, source: str, progress: Progress = SILENT) -> Matched:
    """Return the data by node, as `match`; ModelError if no name is one of the model's."""
    found = match(model, data, progress)
    if not found.values:
        detail = f"0 of {plural(found.count, 'name')} match a node or value, such as {listed(found.unknown)}"
        raise ModelError(f"{source} has no data of this model", detail)
    return found


def listed(names: Sequence[str]) -> str:
    """Return the first of some names."""
    shown = ", ".join(display(name, 60) for name in names[:_LISTED])
    return f"{shown}, …" if len(names) > _LISTED else shown


def _last_of_fused(name: str, known: Mapping[str, Node]) -> Node | None:
    """Return the node that writes the result of fused ones, by the name that a runtime gave them."""
    plain, before = name, ""
    while plain != before and plain not in known:
        before, plain = plain, _ORT_FUSED.sub("", plain)
    if plain in known:
        return known[plain]
    return next((known[part] for part in reversed(_TENSORRT_FUSED.split(name)) if part in known), None)


class _Entries(list[tuple[str, Any]]):
    """Entries of a JSON object, which may repeat names."""


def _from_json(content: Any) -> NodeData:
    if isinstance(content, _Entries):
        fields = dict(content)
        if isinstance(fields.get("traceEvents"), list):
            return _from_json(fields["traceEvents"])
        return _model_explorer(content) or _data(content, has_heading=False)
    rows = content if type(content) is list else []
    objects = [dict(row) for row in rows if isinstance(row, _Entries)]
    if objects:
        return _onnxruntime(objects) or _tensorrt(objects) or NodeData()
    pairs = [(row[0], row[1]) for row in rows if type(row) is list and len(row) > 1]
    return _data(pairs, has_heading=True)


def _model_explorer(content: _Entries) -> NodeData | None:
    """Node data of Model Explorer: results of one graph, or by the names of graphs."""
    fields = dict(content)
    graphs = [fields] if "results" in fields else [dict(v) for _, v in content if isinstance(v, _Entries)]
    results = [g["results"] for g in graphs if isinstance(g.get("results"), _Entries)]
    if not results:
        return None
    pairs = [(n, dict(v).get("value") if isinstance(v, _Entries) else v) for entries in results for n, v in entries]
    return _data(pairs, has_heading=False)


def _onnxruntime(events: Sequence[Mapping[str, Any]]) -> NodeData | None:
    """Mean time of each node in a run. The runs are counted by their events, the first being warm-up as others."""
    times: dict[str, float] = {}
    runs = sum(event.get("name") == "model_run" for event in events) or 1
    for event in events:
        name, duration = event.get("name"), _number(event.get("dur"))
        if event.get("cat") == "Node" and isinstance(name, str) and name.endswith(_ORT_TIME) and duration is not None:
            short = name.removesuffix(_ORT_TIME)
            times[short] = times.get(short, 0.0) + duration / 1e3 / runs
    return replace(_data(list(times.items()), has_heading=False), title=_TIME, of_fused=True) if times else None


def _tensorrt(layers: Sequence[Mapping[str, Any]]) -> NodeData | None:
    """Mean time of each layer: of a list with the number of runs first, then layers."""
    pairs = [(layer["name"], layer["averageMs"]) for layer in layers if "name" in layer and "averageMs" in layer]
    return replace(_data(pairs, has_heading=False), title=_TIME, of_fused=True) if pairs else None


def _columns(text: str, mark: str) -> NodeData:
    """Parse the data with a column separator; with other separators than a comma, decimal commas are accepted."""
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if len(row) > 1]
    return _data([(row[0], row[1]) for row in rows], has_heading=True, decimal_comma=mark != ",")


def _data(pairs: Sequence[tuple[Any, Any]], *, has_heading: bool, decimal_comma: bool = False) -> NodeData:
    numbers: dict[str, float] = {}
    others: list[tuple[str, str]] = []
    repeated: dict[str, None] = {}
    title = ""
    for index, (name, value) in enumerate(pairs):
        number = _number(value.replace(",", ".") if decimal_comma and isinstance(value, str) else value)
        if number is not None and isfinite(number):
            if numbers.get(str(name), number) != number:
                repeated[str(name)] = None
            numbers[str(name)] = number
        elif has_heading and not index and number is None:
            title = str(value).strip()
        else:
            others.append((str(name), str(value)))
    if numbers:
        return NodeData(numbers, title, others, list(repeated))
    # The first row of a table of texts is its heading, as for numbers: nothing else tells it from a node.
    rows = pairs[1:] if title else pairs
    texts = {str(name): value for name, value in rows if isinstance(value, str) and value and _number(value) is None}
    return NodeData(title=title, texts=texts)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
