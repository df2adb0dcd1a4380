"""Model properties: versions, producer, opset imports, texts, metadata, devices, training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Literal

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.devices import DeviceConfiguration
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, QuantizationAnnotation, TrainingInfo, Value
from onnx_workbench.model.progress import SILENT, Progress

_INT64_MAX = (1 << 63) - 1


def set_ir_version(edit: Transaction, version: int) -> None:
    """Set the declared IR version; contents are not converted."""
    if not 1 <= version <= _INT64_MAX:
        raise ModelError(f"{version} is not an IR version", "IR versions are 1 and up.", edit.model)
    edit.do(SetField(edit.model, "ir_version", version))


def set_opset(edit: Transaction, target: Model | Function, domain: str, version: int | None) -> None:
    """Import a domain at an opset version, or (None) remove the import. Nodes are not converted; see
    `model.convert`.
    """
    domain = "" if domain == "ai.onnx" else domain
    imports = dict(target.opset_imports)
    if version is None:
        imports.pop(domain, None)
    else:
        check_opset_version(version, target)
        imports[domain] = version
    edit.do(SetField(target, "opset_imports", imports))


def check_opset_version(version: int, place: object) -> None:
    """Raise ModelError for a version that no operator set can have."""
    if not 1 <= version <= _INT64_MAX:
        raise ModelError(f"{version} is not an opset version", "Opset versions are 1 and up.", place)


def set_text(edit: Transaction, target: Model | Graph | Function | Node | Value, field: str, text: str) -> None:
    """Set a text field: doc_string of anything, and a model's producer_name, producer_version, domain."""
    _require_place(target)
    edit.do(SetField(target, field, text))


def remove_documentation(edit: Transaction, model: Model, progress: Progress = SILENT) -> int:
    """Remove the doc strings of all functions, graphs, nodes and values, and the metadata of all but the model.

    Exporters put stack traces with file paths there. The model keeps its own texts: its metadata often hold class names
    and sizes that programs read. Decodes the details of every node. Returns how many objects had any.
    """
    objects: Iterator[Graph | Function | Node | Value] = chain(
        model.functions,
        chain.from_iterable((graph, *graph.nodes, *graph.values()) for graph in model.graphs(progress)),
    )
    documented = [thing for thing in progress.paced(objects) if thing.doc_string or thing.metadata]
    for thing in progress.paced(documented, of=len(documented)):
        if thing.doc_string:
            edit.do(SetField(thing, "doc_string", ""))
        if thing.metadata:
            edit.do(SetField(thing, "metadata", {}))
    return len(documented)


def set_model_version(edit: Transaction, version: int) -> None:
    """Set the model's own version number."""
    if not -_INT64_MAX - 1 <= version <= _INT64_MAX:
        raise ModelError(f"{version} is not a model version", "It must fit 64 bits.", edit.model)
    edit.do(SetField(edit.model, "model_version", version))


def set_metadata(
    edit: Transaction, target: Model | Graph | Function | Node | Value, key: str, text: str | None
) -> None:
    """Set or (None) remove one entry of metadata_props at any level."""
    _require_place(target)
    edit.do(SetField(target, "metadata", with_entry(target.metadata, key, text, target)))


def rename_metadata(edit: Transaction, target: Model | Graph | Function | Node | Value, old: str, new: str) -> None:
    """Rename a key, keeping its position."""
    edit.do(SetField(target, "metadata", with_key(target.metadata, old, new, target)))


def _require_place(target: object) -> None:
    """Raise ModelError for metadata of a function body, which no file can store as it is not a GraphProto."""
    if isinstance(target, Graph) and isinstance(target.owner, Function):
        raise ModelError(
            "The body of a function has no properties",
            "Name, description and metadata are those of the function; it has no quantization annotations.",
            target.owner,
        )


def with_entry(metadata: Mapping[str, str], key: str, text: str | None, place: object) -> Mapping[str, str]:
    """Return metadata with one entry set or (None) removed; `place` describes the owner for messages."""
    if not key:
        raise ModelError("A metadata entry needs a key", "The key is empty.", place)
    entries = dict(metadata)
    if text is None:
        entries.pop(key, None)
    else:
        entries[key] = text
    return entries


def with_key(metadata: Mapping[str, str], old: str, new: str, place: object) -> Mapping[str, str]:
    """Return metadata with one key renamed, its position kept; `place` describes the owner for messages."""
    if new != old and (not new or new in metadata):
        raise ModelError(f"{new or 'An empty key'} cannot be the new key", "It is in use or empty.", place)
    return {new if key == old else key: text for key, text in metadata.items()}


def set_configurations(edit: Transaction, configurations: tuple[DeviceConfiguration, ...]) -> None:
    """Set the model's device configurations; ModelError for duplicate names and wrong device counts."""
    names = [c.name for c in configurations]
    if len(set(names)) < len(names):
        raise ModelError("Two device configurations share a name", ", ".join(sorted(names)), edit.model)
    for configuration in configurations:
        if configuration.devices and len(configuration.devices) != configuration.num_devices:
            raise ModelError(
                f"{configuration.name} names {len(configuration.devices)} devices",
                f"It declares {configuration.num_devices}.",
                edit.model,
            )
    edit.do(SetField(edit.model, "configurations", configurations))


def set_quantization_annotations(
    edit: Transaction, graph: Graph, annotations: tuple[QuantizationAnnotation, ...]
) -> None:
    """Set the quantization annotations of a graph; at most one per value."""
    values = [a.value for a in annotations]
    _require_place(graph)
    if len(set(values)) < len(values):
        raise ModelError("A value is annotated twice", "Join its parameters into one annotation.", graph)
    edit.do(SetField(graph, "quantization_annotations", annotations))


def add_training(edit: Transaction, training: TrainingInfo) -> None:
    """Add a training info with an initialization or a training step to the model."""
    edit.do(SetField(edit.model, "training_info", (*edit.model.training_info, training)))


def remove_training(edit: Transaction, training: TrainingInfo) -> None:
    """Remove a training step."""
    kept = tuple(t for t in edit.model.training_info if t is not training)
    edit.do(SetField(edit.model, "training_info", kept))


def set_training_graph(
    edit: Transaction, training: TrainingInfo, field: Literal["initialization", "algorithm"], graph: Graph | None
) -> None:
    """Set one of the graphs of a training step, or (None) remove it with the bindings to its outputs."""
    if graph is None:
        binding = "initialization_binding" if field == "initialization" else "update_binding"
        edit.do(SetField(training, binding, ()))
    edit.do(SetField(training, field, graph))


def _bindable(model: Model, graph: Graph | None, field: str) -> set[str]:
    """Return what bindings of a training graph may refer to: its outputs, for updates also those of the main graph."""
    graphs = (graph, model.graph) if field == "update_binding" else (graph,)
    return {value.name for each in graphs if each is not None for value in each.outputs}


def set_bindings(
    edit: Transaction,
    training: TrainingInfo,
    *,
    initialization: Mapping[str, str] | None = None,
    update: Mapping[str, str] | None = None,
) -> None:
    """Bind outputs of the training graphs to initializers; ModelError for unknown names."""
    model = edit.model
    targets = {v.name for v in model.graph.initializers}
    if training.algorithm is not None:
        targets |= {v.name for v in training.algorithm.initializers}
    for field, binding, graph in (
        ("initialization_binding", initialization, training.initialization),
        ("update_binding", update, training.algorithm),
    ):
        if binding is None:
            continue
        outputs = _bindable(model, graph, field)
        for key, output in binding.items():
            if key not in targets:
                raise ModelError(f"No initializer {key!r}", "A binding sets an initializer of the model.", training)
            if output not in outputs:
                raise ModelError(f"No output {output!r}", "A binding takes an output of its training graph.", training)
        edit.do(SetField(training, field, tuple(binding.items())))
