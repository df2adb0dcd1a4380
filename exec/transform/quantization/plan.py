"""What is quantized and what is kept in float, and why; presets say what a target takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from onnx_workbench.exec.transform.quantization.ranges import CALIBRATIONS
from onnx_workbench.model.analysis.node_constants import tensor_of
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType, TensorType, Type
from onnx_workbench.model.schemas.defaults import attribute

#: Operators with a weight that is multiplied; the places of weights among their inputs.
_WEIGHTS: Final = {
    "Conv": (1,), "ConvTranspose": (1,), "MatMul": (1,), "Gemm": (1,), "LSTM": (1, 2), "GRU": (1, 2), "RNN": (1, 2),
    "Gather": (0,),
}  # fmt: skip
_LAYERS = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm"})
_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
#: Operators that only move or choose elements: input and outputs have one scale. Concat has one for all inputs.
PASSING: Final = frozenset(
    {"Concat", "Flatten", "MaxPool", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"}
)
#: Ranges of outputs that do not depend on the data.
FIXED_RANGES: Final = {"Softmax": (0.0, 1.0), "Sigmoid": (0.0, 1.0), "HardSigmoid": (0.0, 1.0)}

METHODS: Final = {
    "static": ("int8", "uint8", "int16", "uint16", "float8e4m3"),  # types of activations
    "dynamic": ("int8",),  # types of weights
    "weights": ("int8", "int4", "int2"),
}
_LEAST_WEIGHT = 256  # elements; for less, scales and nodes take more than is saved


@dataclass(frozen=True, slots=True)
class Preset:
    """What a target takes: types of activations, the first being the default, symmetric ranges, operators."""

    doc: str
    types: tuple[str, ...]
    symmetric: bool = False
    operators: frozenset[str] = _LAYERS | {"Add"}
    outputs: bool = False  # values between operators of integers alone
    packed: bool = False  # MatMulNBits for weights of blocks


PRESETS: Final = {
    "any": Preset("standard operators only", METHODS["static"]),
    "onnxruntime": Preset("ONNX Runtime on a processor", ("uint8", "int8", "int16", "uint16"), packed=True),
    "tensorrt": Preset("TensorRT: zero points are 0", ("int8", "float8e4m3"), symmetric=True),
    "qnn": Preset(
        "Qualcomm NPUs: integers between operators too",
        ("uint8", "uint16"),
        operators=_LAYERS | PASSING | {"Add", "AveragePool", "GlobalAveragePool", "Mul", "Relu", "Sigmoid", "Softmax"},
        outputs=True,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeOptions:
    """How to quantize. Texts are those of the options of the command ``quantize``; None is the preset's choice."""

    method: str = "static"
    type: str | None = None
    calibration: str = "minmax"
    percentile: float = 99.999
    per_channel: bool = True
    symmetric: bool | None = None
    block_size: int = 32
    keep: Collection[str] = ()  # operators, patterns of node names, or names of first outputs
    preset: str = "any"
    compensate: bool = False  # weights whose errors make up for each other on the inputs

    def checked(self) -> QuantizeOptions:
        """Return these options with the choices of the preset; ModelError for one that does not exist."""
        for what, chosen, there in (
            ("method", self.method, METHODS),
            ("preset", self.preset, PRESETS),
            ("calibration", self.calibration, CALIBRATIONS),
        ):
            if chosen not in there:
                raise ModelError(f"There is no {what} {chosen!r}", f"There are: {', '.join(there)}.")
        preset = PRESETS[self.preset]
        types = [name for name in preset.types if name in METHODS["static"]]
        types = types if self.method == "static" else list(METHODS[self.method])
        kind = self.type or types[0]
        if kind not in types:
            raise ModelError(
                f"{kind} is not a type for {self.method} with the preset {self.preset}",
                f"There are: {', '.join(types)}.",
            )
        if self.compensate and self.method != "weights":
            raise ModelError(f"Errors are not compensated by {self.method}", "Expected the method weights.")
        if not 50 < self.percentile <= 100:
            raise ModelError(f"{self.percentile:g} is not a percentile", "Expected a number above 50, up to 100.")
        if self.block_size < 16 or self.block_size & (self.block_size - 1):
            raise ModelError(f"{self.block_size} is not a block size", "Expected a power of two from 16 on.")
        is_usual = preset.symmetric or (kind == "int8" and self.method == "weights")
        symmetric = is_usual if self.symmetric is None else self.symmetric or preset.symmetric
        return QuantizeOptions(
            method=self.method, type=kind, calibration=self.calibration, percentile=self.percentile,
            per_channel=self.per_channel, symmetric=symmetric, block_size=self.block_size, keep=self.keep,
            preset=self.preset, compensate=self.compensate,
        )  # fmt: skip

    @property
    def opset(self) -> int:
        """The least version of ai.onnx that has what is needed."""
        if self.method == "static":
            return {"float8e4m3": 19, "int16": 21, "uint16": 21}.get(self.type or "", 13)
        if self.method == "weights" and self.type in ("int4", "int2"):
            needed = {"int4": 21, "int2": 25}[self.type]
            return 13 if PRESETS[self.preset].packed else needed
        return 13


@dataclass(frozen=True, slots=True)
class Layer:
    """A node to quantize, and its name in reports: its own, or that of its first output."""

    node: Node
    name: str
    weights: tuple[int, ...]  # places of the inputs that are constant and quantized


@dataclass(frozen=True, slots=True)
class Kept:
    """A node that stays in float, and why."""

    node: Node
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Layers to quantize and layers to keep, in the order of the graphs."""

    layers: list[Layer]
    kept: list[Kept]


def name_of(node: Node) -> str:
    """Return the name of a node in reports."""
    first = next((value.name for value in node.outputs if value is not None), "")
    return node.name or first or node.op_type


def fixed_tensor(value: Value | None) -> Tensor | None:
    """Return the numbers of a constant that no caller can replace."""
    return None if value is None or value.is_input else tensor_of(value)


def plan(model: Model, options: QuantizeOptions, type_of: Callable[[Value], Type | None]) -> Plan:
    """Decide for each node with weights, or that the preset quantizes; ModelError for something to keep that is not
    there.
    """
    layers: list[Layer] = []
    kept: list[Kept] = []
    unused = set(options.keep)
    for graph in _graphs(model):
        for node in graph.nodes:
            hits = {pattern for pattern in options.keep if _is_meant(node, pattern)}
            unused -= hits
            if not _is_candidate(node, options):
                continue
            weights = tuple(
                place for place in _WEIGHTS.get(node.op_type, ()) if fixed_tensor(_input(node, place)) is not None
            )
            reason = "you keep it" if hits else why_not(node, weights, options, type_of)
            name = name_of(node)
            if reason:
                kept.append(Kept(node, name, reason))
            else:
                layers.append(Layer(node, name, weights))
    if unused:
        raise ModelError(
            f"There is no node {min(unused)!r} to keep", "Expected an operator or a pattern of node names."
        )
    return Plan(layers, kept)


def _graphs(model: Model) -> Iterator[Graph]:
    for root in model.root_graphs():
        yield from root.walk()


def _is_meant(node: Node, pattern: str) -> bool:
    return node.op_type == pattern or fnmatchcase(name_of(node), pattern)


def _input(node: Node, place: int) -> Value | None:
    return node.inputs[place] if place < len(node.inputs) else None


def _is_candidate(node: Node, options: QuantizeOptions) -> bool:
    """Return whether it is quantized or at least named in the report."""
    if node.domain:
        return False
    if node.op_type == "Gather":
        return fixed_tensor(_input(node, 0)) is not None and _is_large_float(fixed_tensor(_input(node, 0)))
    if options.method == "static" and node.op_type in PRESETS[options.preset].operators:
        return True
    return node.op_type in _WEIGHTS


def _is_large_float(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.element_type is ElementType.FLOAT and tensor.size >= _LEAST_WEIGHT


def why_not(
    node: Node, weights: tuple[int, ...], options: QuantizeOptions, type_of: Callable[[Value], Type | None]
) -> str:
    """Return why a node is not quantized; empty if it is."""
    assert node.graph is not None
    first = _input(node, 0)
    if first is None:
        return "it has no input"
    for value in node.inputs[: 1 if node.op_type == "Gather" else 2]:
        kind = None if value is None else type_of(value)
        if value is not None and not (isinstance(kind, TensorType) and kind.element_type is ElementType.FLOAT):
            return f"{value.name} is {kind or 'of unknown type'}; float is quantized"
    tensors = [fixed_tensor(_input(node, place)) for place in weights]
    if problem := next((t.problem for t in tensors if t is not None and t.problem), ""):
        return f"its weights are not available: {problem}"
    if node.op_type == "Gather":
        return _why_not_gather(node, tensors[0])
    if made := _made_of_integers(node):
        return f"its weights are integers already, of which {made.op_type} makes floats"
    if options.method == "static" and has_ranges(node):
        return _why_not_static(node, weights)
    if options.method == "static" and PRESETS[options.preset].outputs:
        return "its values have no ranges, which the preset needs between all operators"
    if not weights:
        if node.op_type not in _WEIGHTS:
            return f"it is in {_place(node.graph)}: values there have no ranges"
        made = _maker(_input(node, _WEIGHTS[node.op_type][0]))
        return f"it has no constant weights: {made.op_type} computes them" if made else "it has no constant weights"
    if all(t is not None and t.size < _LEAST_WEIGHT for t in tensors):
        return f"its weights have less than {_LEAST_WEIGHT} elements"
    return _why_not_dynamic(node, tensors[0]) if options.method == "dynamic" else ""


def has_ranges(node: Node) -> bool:
    """Return whether calibration finds the ranges of a node's values: not those of bodies, functions and states. Static
    quantization takes the weights of others alone.
    """
    assert node.graph is not None
    return not _place(node.graph) and node.op_type not in _RECURRENT


def _maker(value: Value | None) -> Node | None:
    return None if value is None else value.producer


def _made_of_integers(node: Node) -> Node | None:
    """Return the node that makes floats of integers for the weights of a node, if all that follows is scaling."""
    for place in _WEIGHTS.get(node.op_type, ()):
        value = _input(node, place)
        while (maker := _maker(value)) is not None and maker.op_type in ("Mul", "Reshape", "Transpose"):
            value = maker.inputs[0] if fixed_tensor(maker.inputs[0]) is None else maker.inputs[-1]
        made = None if maker is None or not maker.inputs else fixed_tensor(maker.inputs[0])
        if maker is not None and made is not None and maker.op_type in ("Cast", "DequantizeLinear"):
            return maker
    return None


def _why_not_static(node: Node, weights: tuple[int, ...]) -> str:
    if fixed_tensor(node.inputs[0]) is not None and (weights or len(node.inputs) < 2):
        return "its inputs are constants"
    if node.op_type == "Add" and any(fixed_tensor(value) is not None for value in node.inputs):
        return "it adds a constant, which costs nothing in float"
    return ""


def _why_not_dynamic(node: Node, weight: Tensor | None) -> str:
    match node.op_type:
        case "ConvTranspose":
            return "ONNX has no ConvTranspose of integers; the method weights quantizes its weights"
        case "Gemm" if attribute(node, "transA") or attribute(node, "alpha") != 1 or attribute(node, "beta") != 1:
            return "it transposes A or has factors"
        case "MatMul" if weight is not None and len(weight.shape) != 2:
            return "its weights are not a matrix"
    return ""


def _why_not_gather(node: Node, table: Tensor | None) -> str:
    source = node.inputs[0]
    assert source is not None
    if table is None or len(table.shape) != 2 or attribute(node, "axis"):
        return "it does not gather rows of a matrix"
    for user in source.consumers:
        if user.op_type != "Gather":
            return f"its table is shared with {name_of(user)}"
    return ""


def _place(graph: Graph) -> str:
    """Return the body or function that a graph is in; empty for the main graph."""
    owner = graph.owner
    if isinstance(owner, Node):
        return f"a body of {name_of(owner)}"
    return f"the function {owner.name}" if isinstance(owner, Function) else ""
