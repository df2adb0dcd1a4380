"""Files of numbers or texts per node: tables, profiles of ONNX Runtime and TensorRT, node data of Model Explorer."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_workbench.exec.inspect.node_data import NodeData, data_of, number_of
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.source import require_regular

_LARGEST_FILE = 64 << 20
_MOST_COLUMNS = 16
_TIME = "Time (ms)"
_ORT_TIME = "_kernel_time"
#: The nodes that a layer of TensorRT was made of, in the metadata of layers: ``[ONNX Layer: conv1 | call (function)]``.
_ONNX_LAYER = re.compile(r"\[ONNX Layer: ([^\]|]*?)(?: \|[^\]]*)?\]")


def read_node_data(path: Path) -> NodeData:
    """Read numbers or texts by name.

    A CSV file has names in its first column and numbers or texts in the others, separated by commas, semicolons or
    tabs; with the latter two, decimal commas are accepted. JSON is an object ``{"name": 1.5}``, a list
    ``[["name", 1.5]]``, a profile of ONNX Runtime (`enable_profiling`; milliseconds per run, and execution providers),
    of TensorRT (``trtexec --exportProfile``; or ``--exportLayerInfo``: types of layers), or node data of Model
    Explorer. ModelError for other files.
    """
    expected = "a name and a number or string in each line were expected"
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
            tables = [_columns(text, mark) for mark in "\t;," if mark in text]
            read = next((one for one in tables if one.numbers), None) or next(
                (one for one in tables if one.texts), NodeData()
            )
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise ModelError(f"{path.name} has no data per node", str(error), str(path)) from None
    if not read.named:
        raise ModelError(f"{path.name} has no data per node", expected, str(path))
    return read


class _Entries(list[tuple[str, Any]]):
    """Entries of a JSON object, which may repeat names."""


def _from_json(content: Any) -> NodeData:
    if isinstance(content, _Entries):
        fields = dict(content)
        if isinstance(fields.get("traceEvents"), list):
            return _from_json(fields["traceEvents"])
        if isinstance(fields.get("Layers"), list):
            return _tensorrt_layers(fields["Layers"])
        return _model_explorer(content) or data_of(content, has_heading=False)
    rows = content if type(content) is list else []
    objects = [dict(row) for row in rows if isinstance(row, _Entries)]
    if objects:
        return _onnxruntime(objects) or _tensorrt(objects) or NodeData()
    pairs = [(row[0], row[1]) for row in rows if type(row) is list and len(row) > 1]
    return data_of(pairs, has_heading=True)


def _model_explorer(content: _Entries) -> NodeData | None:
    """Node data of Model Explorer: results of one graph, or by the names of graphs."""
    fields = dict(content)
    graphs = [fields] if "results" in fields else [dict(v) for _, v in content if isinstance(v, _Entries)]
    results = [g["results"] for g in graphs if isinstance(g.get("results"), _Entries)]
    if not results:
        return None
    pairs = [(n, dict(v).get("value") if isinstance(v, _Entries) else v) for entries in results for n, v in entries]
    title = next((g["name"] for g in graphs if isinstance(g.get("name"), str)), "")
    return data_of(pairs, has_heading=False, title=title)


def _onnxruntime(events: Sequence[Mapping[str, Any]]) -> NodeData | None:
    """Mean time of each node in a run, and its execution provider.

    The runs are counted by their events, the first being warm-up as others.
    """
    times: dict[str, float] = {}
    providers: dict[str, str] = {}
    runs = sum(event.get("name") == "model_run" for event in events) or 1
    for event in events:
        name, duration = event.get("name"), number_of(event.get("dur"))
        if event.get("cat") == "Node" and isinstance(name, str) and name.endswith(_ORT_TIME) and duration is not None:
            short = name.removesuffix(_ORT_TIME)
            times[short] = times.get(short, 0.0) + duration / 1e3 / runs
            arguments = event.get("args")
            provider = dict(arguments).get("provider") if isinstance(arguments, _Entries) else None
            if isinstance(provider, str) and provider:
                providers[short] = provider.removesuffix("ExecutionProvider")
    if not times:
        return None
    placed = NodeData(title="Execution provider", texts=providers, of_fused=True)
    mean = data_of(list(times.items()), has_heading=False, title=_TIME)
    return replace(mean, of_fused=True, more=[placed] if providers else [])


def _tensorrt(layers: Sequence[Mapping[str, Any]]) -> NodeData | None:
    """Mean time of each layer: of a list with the number of runs first, then layers."""
    pairs = [(layer["name"], layer["averageMs"]) for layer in layers if "name" in layer and "averageMs" in layer]
    return replace(data_of(pairs, has_heading=False, title=_TIME), of_fused=True) if pairs else None


def _tensorrt_layers(layers: Sequence[Any]) -> NodeData:
    """The type of layer that each node became, and the format of its output. The metadata of layers name the nodes."""
    types: dict[str, str] = {}
    formats: dict[str, str] = {}
    rows = [dict(layer) for layer in layers if isinstance(layer, _Entries)]
    if not rows:
        detail = "It has layer names only: build the engine with --profilingVerbosity=detailed."
        raise ModelError("The layer information has no data per node", detail)
    for layer in rows:
        names = _ONNX_LAYER.findall(str(layer.get("Metadata") or "")) or [str(layer.get("Name", ""))]
        outputs = layer.get("Outputs")
        output = dict(outputs[0]) if type(outputs) is list and outputs and isinstance(outputs[0], _Entries) else {}
        for column, text in ((types, layer.get("LayerType")), (formats, output.get("Format/Datatype"))):
            if isinstance(text, str) and text:
                column |= dict.fromkeys(names, text)
    more = [NodeData(title="Output format", texts=formats, of_fused=True)] if formats else []
    return NodeData(title="Layer type", texts=types, of_fused=True, more=more)


def _columns(text: str, mark: str) -> NodeData:
    """Parse the data with a column separator; with other separators than a comma, decimal commas are accepted."""
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if len(row) > 1]
    count = min(max(map(len, rows), default=0), _MOST_COLUMNS + 1)
    cells = [[(row[0], row[column]) for row in rows if len(row) > column] for column in range(1, count)]
    comma = mark != ","
    columns = [data_of(pairs, has_heading=True, decimal_comma=comma) for pairs in cells]
    numbers = [one for one in columns if one.numbers]
    if numbers and all(one.heading is None for one in numbers):  # the first line has a number: it is no heading
        columns = [data_of(pairs, has_heading=False, decimal_comma=comma) for pairs in cells]
    filled = sorted((one for one in columns if one.named), key=lambda one: not one.numbers)
    return replace(filled[0], more=filled[1:]) if filled else NodeData()
