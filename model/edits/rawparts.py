"""Fields of the messages below a model object, for `model.edits.raw`: types, shardings, bindings, configurations.

Each function says which edit sets a field, or None where it is edited elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from model.document import Transaction
from model.edits import devices, function_attributes, properties
from model.edits.values import rename_value
from model.errors import ModelError
from model.graph import (
    DeviceConfiguration,
    Function,
    Graph,
    Model,
    Node,
    NodeDeviceConfiguration,
    QuantizationAnnotation,
    ShardedDimension,
    ShardingSpec,
    TrainingInfo,
    Value,
)
from model.queries.scope import visible_values
from model.steps import SetField
from model.types import (
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    Type,
    element_type,
)

Setter = Callable[[Transaction, str], None]
Path = tuple[tuple[str, int], ...]
Change = Callable[[str], Any]  # from a text to what takes the place of the part


def integer(text: str, bits: int = 64) -> int:
    """A whole number of so many bits, in any notation of Python."""
    try:
        found = int(text.strip(), 0)
    except ValueError:
        raise ModelError(f"{text[:40]!r} is not a whole number", f"This field holds a {bits}-bit integer.") from None
    if not -(1 << bits - 1) <= found < 1 << bits - 1:
        raise ModelError(f"{text[:40]!r} is too large", f"This field holds a {bits}-bit integer.")
    return found


def swapped(items: tuple[Any, ...], index: int, item: Any) -> tuple[Any, ...]:
    """Items with another one at a place."""
    return (*items[:index], item, *items[index + 1 :])


# -- types ----------------------------------------------------------------------------------------------------


def type_change(kind: Type, path: Path) -> Callable[[str], Type] | None:
    """How a text changes the field at a path below a TypeProto."""
    names = tuple(name for name, _ in path)
    if names == ("denotation",):
        return lambda text: replace(kind, denotation=text)
    match kind, names:
        case TensorType(), ("tensor_type", *_):
            return _tensor_change(kind, path[1:])
        case SparseTensorType(), ("sparse_tensor_type", *_):
            return _tensor_change(kind, path[1:])
        case SequenceType(), ("sequence_type", "elem_type", *_):
            return _inner_change(kind, "element", kind.element, path[2:])
        case OptionalType(), ("optional_type", "elem_type", *_):
            return _inner_change(kind, "element", kind.element, path[2:])
        case MapType(), ("map_type", "key_type"):
            return lambda text: replace(kind, key_type=element_type(integer(text, 32)))
        case MapType(), ("map_type", "value_type", *_):
            return _inner_change(kind, "value", kind.value, path[2:])
        case OpaqueType(), ("opaque_type", "domain" | "name" as field):
            return lambda text: replace(kind, **{field: text})
    return None


def _inner_change(kind: Any, field: str, inner: Type | None, path: Path) -> Callable[[str], Type] | None:
    change = None if inner is None else type_change(inner, path)
    return None if change is None else lambda text: replace(kind, **{field: change(text)})


def _tensor_change(kind: TensorType | SparseTensorType, path: Path) -> Callable[[str], Type] | None:
    names = tuple(name for name, _ in path)
    if names == ("elem_type",):
        return lambda text: replace(kind, element_type=element_type(integer(text, 32)))
    shape = kind.shape
    if shape is None or names[:2] != ("shape", "dim") or len(names) != 3 or path[1][1] >= shape.rank:
        return None
    axis, field = path[1][1], names[2]
    if field == "denotation":
        given = shape.denotations or ("",) * shape.rank
        return lambda text: replace(kind, shape=Shape(shape.dims, swapped(given, axis, text)))
    parse: Change = integer if field == "dim_value" else str
    return lambda text: replace(kind, shape=Shape(swapped(shape.dims, axis, parse(text)), shape.denotations))


# -- what nodes say of devices --------------------------------------------------------------------------------


def device_setter(node: Node, path: Path) -> Setter | None:
    """A field below one of a node's device configurations."""
    index, inner = path[0][1], path[1:]
    if index >= len(node.device_configurations) or not inner:
        return None
    configuration = node.device_configurations[index]
    match tuple(name for name, _ in inner):
        case ("configuration_id",):
            return lambda edit, text: _put(edit, node, index, replace(configuration, configuration_id=text))
        case ("pipeline_stage",):
            return lambda edit, text: _put(edit, node, index, replace(configuration, pipeline_stage=integer(text, 32)))
        case ("sharding_spec", *_) if inner[0][1] < len(configuration.sharding):
            place = inner[0][1]
            change = _spec_change(configuration.sharding[place], inner[1:])
            if change is not None:
                return lambda edit, text: devices.put_sharding(edit, node, index, place, change(text))
    return None


def _put(edit: Transaction, node: Node, index: int, configuration: NodeDeviceConfiguration) -> None:
    devices.put_device_configuration(edit, node, index, configuration)


def _spec_change(spec: ShardingSpec, path: Path) -> Callable[[str], ShardingSpec] | None:
    place = path[0][1]
    match tuple(name for name, _ in path):
        case ("tensor_name",):
            return lambda text: replace(spec, tensor_name=text)
        case ("device",):
            return lambda text: replace(spec, devices=swapped(spec.devices, place, integer(text)))
        case ("index_to_device_group_map", "key" | "value" as part):
            key, members = spec.device_groups[place]
            position = path[1][1]

            def group(text: str) -> ShardingSpec:
                made = (integer(text), members) if part == "key" else (key, swapped(members, position, integer(text)))
                return replace(spec, device_groups=swapped(spec.device_groups, place, made))

            return group
        case ("sharded_dim", *_):
            change = _dimension_change(spec.dimensions[place], path[1:])
            if change is not None:
                return lambda text: replace(spec, dimensions=swapped(spec.dimensions, place, change(text)))
    return None


def _dimension_change(dimension: ShardedDimension, path: Path) -> Callable[[str], ShardedDimension] | None:
    match tuple(name for name, _ in path):
        case ("axis",):
            return lambda text: replace(dimension, axis=integer(text))
        case ("simple_sharding", "dim_value" | "dim_param" | "num_shards" as part):
            place = path[0][1]
            size, count = dimension.shards[place]

            def shard(text: str) -> ShardedDimension:
                sized = integer(text) if part == "dim_value" else text
                made = (size, integer(text)) if part == "num_shards" else (sized, count)
                return replace(dimension, shards=swapped(dimension.shards, place, made))

            return shard
    return None


# -- the model, functions, graphs, training -------------------------------------------------------------------


def import_setter(target: Model | Function, index: int) -> Setter | None:
    """The domain of an opset import."""
    domains = list(target.opset_imports)
    if index >= len(domains):
        return None

    def apply(edit: Transaction, text: str) -> None:
        domain = "" if text == "ai.onnx" else text
        if domain in target.opset_imports and domain != domains[index]:
            raise ModelError(f"{domain or 'ai.onnx'} is imported already", "A domain is imported once.", target)
        pairs = ((domain if old == domains[index] else old, v) for old, v in target.opset_imports.items())
        edit.do(SetField(target, "opset_imports", dict(pairs)))

    return apply


def configuration_setter(model: Model, path: Path) -> Setter | None:
    """A field of one of the model's device configurations."""
    index, names = path[0][1], tuple(name for name, _ in path[1:])
    if index >= len(model.configurations):
        return None
    configuration = model.configurations[index]

    def put(edit: Transaction, changed: DeviceConfiguration) -> None:
        properties.set_configurations(edit, swapped(model.configurations, index, changed))

    match names:
        case ("name",):
            return lambda edit, text: devices.rename_configuration(edit, configuration, text)
        case ("num_devices",):
            return lambda edit, text: put(edit, replace(configuration, num_devices=integer(text, 32)))
        case ("device",):
            place = path[1][1]
            return lambda edit, text: put(
                edit, replace(configuration, devices=swapped(configuration.devices, place, text))
            )
    return None


def function_setter(function: Function, path: Path) -> Setter | None:
    """A formal input, output or attribute."""
    index = path[0][1]
    match tuple(name for name, _ in path):
        case ("input" | "output" as side,):
            values = function.body.inputs if side == "input" else function.body.outputs
            return None if index >= len(values) else lambda edit, text: rename_value(edit, values[index], text)
        case ("attribute",) if index < len(function.attributes):
            name = function.attributes[index]
            return lambda edit, text: function_attributes.rename(edit, function, name, text)
        case ("attribute_proto", "name") if index < len(function.attribute_defaults):
            default = function.attribute_defaults[index]
            return lambda edit, text: function_attributes.rename(edit, function, default.name, text)
    return None


def annotation_setter(graph: Graph, path: Path) -> Setter | None:
    """A field of a quantisation annotation: the value it is of, or a parameter's key or value."""
    index = path[0][1]
    if index >= len(graph.quantization_annotations):
        return None
    annotation = graph.quantization_annotations[index]

    def put(edit: Transaction, changed: QuantizationAnnotation) -> None:
        annotations = swapped(graph.quantization_annotations, index, changed)
        properties.set_quantization_annotations(edit, graph, annotations)

    match tuple(name for name, _ in path[1:]):
        case ("tensor_name",):
            return lambda edit, text: put(edit, replace(annotation, value=_value_of(graph, text)))
        case ("quant_parameter_tensor_names", "key" | "value" as part):
            place = path[1][1]
            key, value = annotation.parameters[place]

            def apply(edit: Transaction, text: str) -> None:
                made = (text, value) if part == "key" else (key, _value_of(graph, text))
                put(edit, replace(annotation, parameters=swapped(annotation.parameters, place, made)))

            return apply
    return None


def _value_of(graph: Graph, name: str) -> Value:
    value = visible_values(graph).get(name)
    if value is None:
        raise ModelError(f"There is no value {name!r} here", "An annotation names values of its graph.", graph)
    return value


def binding_setter(training: TrainingInfo, path: Path) -> Setter | None:
    """One side of a binding."""
    match tuple(name for name, _ in path):
        case ("initialization_binding" | "update_binding" as field, "key" | "value" as part):
            pairs: tuple[tuple[str, str], ...] = getattr(training, field)
            index = path[0][1]
            if index >= len(pairs):
                return None

            def apply(edit: Transaction, text: str) -> None:
                key, output = pairs[index]
                made = swapped(pairs, index, (text, output) if part == "key" else (key, text))
                if len(dict(made)) < len(made):
                    raise ModelError(f"{text} is bound already", "An initializer is set by one output.", training)
                properties.set_bindings(edit, training, **{field.removesuffix("_binding"): dict(made)})

            return apply
    return None
