"""Rewriting of layers into quantized ones, by a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.exec.transform.quantization.compensation import Products, compensated
from onnx_workbench.exec.transform.quantization.plan import (
    FIXED_RANGES,
    PASSING,
    PRESETS,
    Layer,
    QuantizeOptions,
    fixed_tensor,
    has_ranges,
)
from onnx_workbench.exec.transform.quantization.ranges import (
    TYPES,
    Array,
    Histogram,
    QuantizedWeight,
    Scale,
    chosen_range,
    quantize_weight,
    scale_of,
)
from onnx_workbench.model.edits.nodes import import_operators
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas.defaults import attribute

_MICROSOFT = "com.microsoft"
_INT32 = 2**31 - 1
_LEAST_ROW = 32  # columns from which each row of a table has a scale of its own: for less it would take a fifth more


def activations(layers: Sequence[Layer], options: QuantizeOptions) -> list[Value]:
    """Return the values that the layers need ranges of, in their order."""
    if options.method != "static":
        return []
    values_needed: dict[Value, None] = {}
    for layer in layers:
        if layer.node.op_type == "Gather" or not has_ranges(layer.node):
            continue
        places = range(len(layer.node.inputs)) if layer.node.op_type == "Concat" else range(2)
        if layer.node.op_type in PASSING - {"Concat"}:
            places = range(1)
        values = [v for i, v in enumerate(layer.node.inputs) if i in places and i not in layer.weights]
        values += layer.node.outputs[:1] if PRESETS[options.preset].outputs else ()
        values_needed.update(dict.fromkeys(v for v in values if v is not None and fixed_tensor(v) is None))
    return list(values_needed)


def compensated_inputs(layers: Sequence[Layer], options: QuantizeOptions) -> list[Value]:
    """Return the values that matrices of the main graph are multiplied by, where errors of these are compensated."""
    layers = [layer for layer in layers if options.compensate and layer.weights == (1,) and _is_product(layer.node)]
    return list(dict.fromkeys(v for layer in layers if (v := layer.node.inputs[0]) is not None))


def _is_product(node: Node) -> bool:
    """Return whether a node of the main graph multiplies by a matrix."""
    tensor = fixed_tensor(node.inputs[1])
    is_product = node.op_type == "MatMul" or (node.op_type == "Gemm" and not attribute(node, "transA"))
    return is_product and has_ranges(node) and tensor is not None and len(tensor.shape) == 2


def scales_of(histograms: Mapping[Value, Histogram], options: QuantizeOptions) -> dict[Value, Scale]:
    """Choose the scales of values: one for all that operators only pass on, fixed ones after Softmax and Sigmoid."""
    kind, symmetric = TYPES[options.type or "int8"], bool(options.symmetric)
    ranges = {}
    for value, histogram in histograms.items():
        producer = value.producer
        fixed = FIXED_RANGES.get(producer.op_type) if producer is not None and not producer.domain else None
        ranges[value] = fixed or chosen_range(
            histogram, options.calibration, kind, symmetric=symmetric, percentile=options.percentile
        )
    scales: dict[Value, Scale] = {}
    for group in _passed_on(histograms) if PRESETS[options.preset].outputs else [[value] for value in histograms]:
        low, high = min(ranges[v][0] for v in group), max(ranges[v][1] for v in group)
        scales.update(dict.fromkeys(group, scale_of(low, high, kind, symmetric=symmetric)))
    return scales


def _passed_on(values: Iterable[Value]) -> list[list[Value]]:
    """Return the values in groups: those that operators make of one another without computing are together."""
    groups = {value: [value] for value in values}
    for value in list(groups):
        node = value.producer
        if node is None or node.domain or node.op_type not in PASSING:
            continue
        for taken in node.inputs if node.op_type == "Concat" else node.inputs[:1]:
            if taken in groups and groups[taken] is not groups[value]:
                joined = groups[value] + groups[taken]
                groups.update(dict.fromkeys(joined, joined))
    return list({id(group): group for group in groups.values()}.values())


class Quantizer:
    """Rewrites layers within one edit. Weights that several layers read are quantized once."""

    def __init__(
        self,
        edit: Transaction,
        options: QuantizeOptions,
        scales: Mapping[Value, Scale],
        progress: Progress = SILENT,
        *,
        products: Mapping[Value, Products] | None = None,
    ) -> None:
        self._products = products or {}
        self._edit, self._options, self._scales, self._progress = edit, options, scales, progress
        self._rewriter = GraphRewriter(edit)
        self._floats: dict[tuple[Value, Any], tuple[Value, QuantizedWeight]] = {}
        self._rounded: dict[Value, Value] = {}
        self._dynamic: dict[Value, Sequence[Value]] = {}
        self._tables: dict[Value, Sequence[Value]] = {}
        self._zeros: dict[tuple[Graph, ElementType, tuple[int, ...], bytes], Value] = {}

    def run(self, layers: Sequence[Layer]) -> None:
        """Rewrite all layers."""
        static = self._options.method == "static"
        if static and PRESETS[self._options.preset].outputs:
            self._outputs(layers)
        for layer in layers:
            self._progress.check()
            node = layer.node
            if node.op_type == "Gather":
                self._gather(node)
            elif static and has_ranges(node):
                self._static(layer)
            elif self._options.method == "dynamic" and node.op_type in ("MatMul", "Gemm"):
                self._matmul_integer(node)
            elif self._options.method == "dynamic" and node.op_type == "Conv":
                self._conv_integer(node)
            else:
                self._weights_alone(layer)
        self._rewriter.finish()

    # -- static --------------------------------------------------------------------------------------------------

    def _static(self, layer: Layer) -> None:
        node = layer.node
        graph = _graph(node)
        inputs = list(node.inputs)
        for place, value in enumerate(node.inputs):
            if value is not None and value in self._scales and place not in layer.weights:
                inputs[place] = self._round_trip(value, graph)
        for place in layer.weights:
            inputs[place], weight = self._float_weight(node, place)
            first = node.inputs[0]
            if (
                len(inputs) > 2
                and first is not None
                and first in self._scales
                and node.op_type in ("Conv", "ConvTranspose", "Gemm")
            ):
                inputs[2] = self._bias(node, self._scales[first], weight) or inputs[2]
        self._rewriter.set_inputs(node, inputs)

    def _outputs(self, layers: Sequence[Layer]) -> None:
        """Quantize what layers make for all its users."""
        for layer in layers:
            value = layer.node.outputs[0] if layer.node.outputs else None
            if value is None or value not in self._scales or value.is_output:
                continue
            users = list(dict.fromkeys(value.consumers))
            rounded = self._round_trip(value, _graph(layer.node))
            for user in users:
                self._rewriter.set_inputs(user, [rounded if v is value else v for v in user.inputs])

    def _round_trip(self, value: Value, graph: Graph) -> Value:
        """Return a value quantized and dequantized, right behind its producer: once for all its users."""
        if value in self._rounded.values():
            return value
        if value not in self._rounded:
            scale = self._scales[value]
            following = value.producer.next if value.producer is not None else graph.nodes.first
            zero = np.array(scale.zero).astype(scale.kind.numpy_dtype)
            numbers = self._parameters(graph, value.name, np.float32(scale.scale), zero, scale.kind, following)
            integers = self._node(graph, "QuantizeLinear", [value, *numbers], following, f"{value.name}_quantized")
            self._rounded[value] = self._node(
                graph, "DequantizeLinear", [integers, *numbers], following, f"{value.name}_dequantized"
            )
        return self._rounded[value]

    def _parameters(
        self, graph: Graph, name: str, scales: Any, zeros: Array, kind: ElementType, before: Node | None
    ) -> list[Value]:
        scale = self._rewriter.constant(graph, np.asarray(scales, np.float32), f"{name}_scale", before)
        return [scale, self._zero_point(graph, name, zeros, kind, before)]

    def _zero_point(self, graph: Graph, name: str, zeros: Array, kind: ElementType, before: Node | None) -> Value:
        """Return a zero point; one for all that are equal."""
        key = graph, kind, zeros.shape, zeros.tobytes()
        if key not in self._zeros:
            constant = self._rewriter.constant(graph, ArrayTensor(zeros, kind), f"{name}_zero_point", before)
            if constant.initializer is None:  # of a function, where it has a place
                return constant
            self._zeros[key] = constant
        return self._zeros[key]

    def _node(
        self,
        graph: Graph,
        op_type: str,
        inputs: Sequence[Any],
        before: Node | None,
        output: str,
        attributes: Mapping[str, Any] | None = None,
    ) -> Value:
        value = Value(self._rewriter.names.value(graph, output))
        self._rewriter.add_node(graph, op_type, inputs, attributes, name=output, before=before, outputs=[value])
        return value

    def _bias(self, node: Node, first: Scale, weight: QuantizedWeight) -> Value | None:
        """Return the bias as int32 with the product of the scales; None where it stays in float."""
        bias = node.inputs[2]
        tensor = fixed_tensor(bias)
        if tensor is None or bias is None or len(tensor.shape) != 1 or first.kind is ElementType.FLOAT8E4M3FN:
            return None
        if node.op_type == "Gemm" and (attribute(node, "alpha") != 1 or attribute(node, "beta") != 1):
            return None
        scales = np.broadcast_to(
            np.abs(weight.scales) * np.float32(first.scale), tensor.shape if weight.scales.ndim else ()
        )
        array = tensor.numpy().astype(np.float64)
        numbers = np.rint(array / scales)
        if not np.isfinite(numbers).all() or (np.abs(numbers) > _INT32).any() or not (scales > 0).all():
            return None
        graph = _graph(node)
        integers = self._rewriter.constant(graph, numbers.astype(np.int32), f"{bias.name}_quantized", node)
        zeros = np.zeros(scales.shape, np.int32)
        parameters = self._parameters(graph, bias.name, scales, zeros, ElementType.INT32, node)
        attributes = {"axis": 0} if scales.ndim else None
        return self._node(
            graph, "DequantizeLinear", [integers, *parameters], node, f"{bias.name}_dequantized", attributes
        )

    @property
    def _is_symmetric(self) -> bool:
        """Whether zero points of weights are 0: those of products of integers always are."""
        return self._options.method != "weights" or bool(self._options.symmetric)

    # -- weights -------------------------------------------------------------------------------------------------

    def _float_weight(self, node: Node, place: int) -> tuple[Value, QuantizedWeight]:
        """Return a weight dequantized from integers, and these; the same for all layers that take it alike."""
        value, options = node.inputs[place], self._options
        tensor = fixed_tensor(value)
        assert value is not None
        assert tensor is not None
        kind = _weight_type(node, options)
        axis = _channel_axis(node, len(tensor.shape)) if options.per_channel else None
        block = options.block_size if kind.bits < 8 and node.op_type in ("MatMul", "Gemm") else 0
        if block:
            axis = _reduced_axis(node, len(tensor.shape))
        key = value, (axis, block, kind)
        if key not in self._floats:
            weight = self._quantized_weight(node, tensor.numpy(), kind, axis, block)
            home = value.graph or _graph(node)
            before = value.producer.next if value.producer is not None else home.nodes.first
            attributes = {} if axis is None else {"axis": axis}
            if block:
                attributes["block_size"] = block
            numbers = ArrayTensor(weight.numbers, kind)
            integers = self._rewriter.constant(home, numbers, f"{value.name}_quantized", before)
            parameters = self._parameters(home, value.name, weight.scales, weight.zeros, kind, before)
            floats = self._node(
                home, "DequantizeLinear", [integers, *parameters], before, f"{value.name}_dequantized", attributes
            )
            self._floats[key] = floats, weight
        return self._floats[key]

    def _quantized_weight(
        self, node: Node, array: Array, kind: ElementType, axis: int | None, block: int
    ) -> QuantizedWeight:
        first = node.inputs[0]
        products = self._products.get(first) if first is not None and _is_product(node) else None
        if products is None or not products.sums.size or axis is None:
            return quantize_weight(array, kind, axis=axis, block=block, symmetric=self._is_symmetric)
        if not np.isfinite(array).all():
            raise ModelError("Weights cannot be quantized", "they contain infinities or NaN")
        turned = node.op_type == "Gemm" and attribute(node, "transB")
        matrix = array.T if turned else array
        weight = compensated(matrix, kind, products.sums, block=block, symmetric=self._is_symmetric)
        if not turned:
            return weight
        parts = (weight.numbers, weight.scales, weight.zeros)
        return QuantizedWeight(*(np.ascontiguousarray(part.T) for part in parts))

    def _weights_alone(self, layer: Layer) -> None:
        node, options = layer.node, self._options
        tensor = fixed_tensor(node.inputs[1])
        kind = _weight_type(node, options)
        packs = PRESETS[options.preset].packed and kind.bits < 8 and node.op_type == "MatMul"
        if packs and tensor is not None and len(tensor.shape) == 2:
            self._matmul_nbits(node, tensor.numpy(), kind)
            return
        inputs = list(node.inputs)
        for place in layer.weights:
            inputs[place], _ = self._float_weight(node, place)
        self._rewriter.set_inputs(node, inputs)

    def _matmul_nbits(self, node: Node, array: Array, kind: ElementType) -> None:
        """Replace MatMul by MatMulNBits, whose weights are packed in bytes, the lowest bits first."""
        graph, block, bits = _graph(node), self._options.block_size, kind.bits
        weight = self._quantized_weight(node, array, kind, 0, block)
        rows, columns = array.shape
        count = -(-rows // block)
        middle = 1 << bits - 1
        codes = np.full((columns, count * block), middle, np.uint8)
        codes[:, :rows] = weight.numbers.T.astype(np.int16) + middle
        packed = _packed(codes, bits).reshape(columns, count, -1)
        name = node.inputs[1].name if node.inputs[1] is not None else "weight"
        contents: dict[str, Array] = {"quantized": packed, "scale": np.ascontiguousarray(weight.scales.T)}
        if not self._is_symmetric:
            contents["zero_point"] = _packed(weight.zeros.T.astype(np.int16) + middle, bits)
        constants = [self._rewriter.constant(graph, array, f"{name}_{what}", node) for what, array in contents.items()]
        sizes = {"K": rows, "N": columns, "bits": bits, "block_size": block}
        output = node.outputs[0]
        assert output is not None
        import_operators(self._edit, graph, _MICROSOFT, 1)
        title = self._rewriter.names.node(graph, f"{node.name or 'MatMul'}_{bits}bit")
        following = node.next
        inputs = (node.inputs[0], *constants)
        self._rewriter.release_output(output, f"{output.name}_before")
        packed_node = Node(
            "MatMulNBits", inputs, (output,), name=title, domain=_MICROSOFT,
            attributes={k: make_attribute(k, v) for k, v in sizes.items()},
        )  # fmt: skip
        self._rewriter.insert(graph, [packed_node], following)
        self._edit.do(SetField(packed_node, "metadata", node.metadata))
        self._rewriter.collect([node])

    def _gather(self, node: Node) -> None:
        """Gather rows of integers and turn these into floats: the table is never expanded."""
        table, graph = node.inputs[0], _graph(node)
        assert table is not None
        tensor = fixed_tensor(table)
        assert tensor is not None
        by_row = self._options.per_channel and tensor.shape[1] >= _LEAST_ROW
        if table not in self._tables:
            weight = quantize_weight(tensor.numpy(), ElementType.INT8, axis=0 if by_row else None, summed=False)
            home = table.graph or graph
            before = table.producer.next if table.producer is not None else home.nodes.first
            contents: dict[str, Any] = {
                "quantized": ArrayTensor(weight.numbers, ElementType.INT8),
                "scale": weight.scales[:, None] if by_row else weight.scales,
            }
            if (
                not by_row
            ):  # ONNX Runtime takes the scale beyond a Transpose, and without the type of numbers as that of uint8
                contents["zero_point"] = ArrayTensor(weight.zeros, ElementType.INT8)
            self._tables[table] = [
                self._rewriter.constant(home, content, f"{table.name}_{what}", before)
                for what, content in contents.items()
            ]
        integers, scales, *zeros = self._tables[table]
        places = node.inputs[1]
        rows = self._rewriter.add_like(node, "Gather", [integers, places], {"axis": 0})
        if not by_row:
            self._rewriter.replace_node(node, "DequantizeLinear", [rows, scales, *zeros])
            return
        floats = self._rewriter.add_like(node, "Cast", [rows], {"to": int(ElementType.FLOAT)})
        scales = self._rewriter.add_like(node, "Gather", [scales, places], {"axis": 0})
        self._rewriter.replace_node(node, "Mul", [floats, scales])

    # -- dynamic -------------------------------------------------------------------------------------------------

    def _quantized_now(self, value: Value, graph: Graph) -> Sequence[Value]:
        """Return the uint8 numbers, scale and zero point of a value, found when the model runs; once for all users."""
        if value not in self._dynamic:
            graph = value.graph or graph  # captured by a body: where all its users see them
            before = value.producer.next if value.producer is not None else graph.nodes.first
            outputs = [
                Value(self._rewriter.names.value(graph, f"{value.name}_{what}"))
                for what in ("quantized", "scale", "zero_point")
            ]
            self._rewriter.add_node(
                graph, "DynamicQuantizeLinear", [value], name=f"{value.name}_quantize", before=before, outputs=outputs
            )
            self._dynamic[value] = outputs
        return self._dynamic[value]

    def _matmul_integer(self, node: Node) -> None:
        graph = _graph(node)
        first, tensor = node.inputs[0], fixed_tensor(node.inputs[1])
        assert first is not None
        assert tensor is not None
        array = tensor.numpy()
        array = array.T if node.op_type == "Gemm" and attribute(node, "transB") else array
        weight = quantize_weight(
            array,
            ElementType.INT8,
            axis=1 if self._options.per_channel else None,
            symmetric=bool(self._options.symmetric),
        )
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        integers, scale, zero = self._quantized_now(first, graph)
        zeros = [weight.zeros] if weight.zeros.any() else []
        sums = self._rewriter.add_like(node, "MatMulInteger", [integers, weight.numbers, zero, *zeros])
        self._scaled(node, sums, scale, weight.scales, bias)

    def _conv_integer(self, node: Node) -> None:
        graph = _graph(node)
        first, tensor = node.inputs[0], fixed_tensor(node.inputs[1])
        assert first is not None
        assert tensor is not None
        rank = len(tensor.shape)
        weight = quantize_weight(tensor.numpy(), ElementType.INT8, axis=0 if self._options.per_channel else None)
        middle = 128  # ONNX Runtime has ConvInteger for uint8 alone
        numbers = (weight.numbers.astype(np.int16) + middle).astype(np.uint8)
        integers, scale, zero = self._quantized_now(first, graph)
        inputs = [integers, numbers, zero, np.array(middle, np.uint8)]
        sums = self._rewriter.add_like(node, "ConvInteger", inputs, node.attributes)
        scales = weight.scales.reshape(-1, *(1,) * (rank - 2)) if weight.scales.ndim else weight.scales
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if bias is not None:
            shape = np.array([1, -1, *(1,) * (rank - 2)], np.int64)
            bias = self._rewriter.add_like(node, "Reshape", [bias, shape])
        self._scaled(node, sums, scale, scales, bias)

    def _scaled(self, node: Node, sums: Value, scale: Value, scales: Array, bias: Value | None) -> None:
        """Replace a node by its sums of integers times both scales, plus the bias."""
        floats = self._rewriter.add_like(node, "Cast", [sums], {"to": int(ElementType.FLOAT)})
        product = self._rewriter.add_like(node, "Mul", [scale, scales])
        if bias is None:
            self._rewriter.replace_node(node, "Mul", [floats, product])
            return
        scaled = self._rewriter.add_like(node, "Mul", [floats, product])
        self._rewriter.replace_node(node, "Add", [scaled, bias])


def _packed(codes: Array, bits: int) -> NDArray[np.uint8]:
    """Pack each row of numbers into bytes, the lowest bits first; the last byte is filled up with zeros."""
    each = 8 // bits
    rows, size = codes.shape
    padded = np.zeros((rows, -(-size // each) * each), np.uint8)
    padded[:, :size] = codes
    parts = padded.reshape(rows, -1, each)
    packed = np.zeros(parts.shape[:-1], np.uint8)
    for place in range(each):
        packed |= parts[..., place] << np.uint8(place * bits)
    return packed


def _graph(node: Node) -> Graph:
    assert node.graph is not None
    return node.graph


def _weight_type(node: Node, options: QuantizeOptions) -> ElementType:
    """Return the type of a weight: fewer than 8 bits are for matrices, float8 follows the activations."""
    tensor = fixed_tensor(node.inputs[1]) if options.method == "weights" else None
    is_packed = node.op_type == "MatMul" and tensor is not None and len(tensor.shape) == 2
    in_blocks = is_packed or (not PRESETS[options.preset].packed and node.op_type in ("MatMul", "Gemm"))
    if options.method == "weights" and in_blocks:
        return TYPES[options.type or "int8"]
    if options.method == "static" and options.type == "float8e4m3":
        return ElementType.FLOAT8E4M3FN
    return ElementType.INT8


def _channel_axis(node: Node, rank: int) -> int | None:
    """Return the axis of a weight that counts outputs; None where one scale per tensor is taken."""
    match node.op_type:
        case "Conv":
            return 0
        case "ConvTranspose":
            return 1 if attribute(node, "group") == 1 else None
        case "Gemm":
            return 0 if attribute(node, "transB") else 1
        case "MatMul":
            return rank - 1 if rank == 2 else None
    return 1  # of recurrent operators: the gates, for both directions


def _reduced_axis(node: Node, rank: int) -> int:
    if node.op_type == "Gemm":
        return 1 if attribute(node, "transB") else 0
    return max(0, rank - 2)
