"""Products of matrices, recurrent layers, attention, losses, signals and what is left of the standard domain."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.macs import einsum_labels
from onnx_workbench.model.analysis.output_sizes import frame_count
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.inference.facts import Dims
from onnx_workbench.model.inference.operators.node_call import (
    Found,
    NodeCall,
    Rule,
    Sized,
    SizeMismatch,
    at,
    axis_of,
    divided,
    expect_equal,
    expect_rank,
    matmul_dims,
    merged,
    product,
    replaced,
    swapped,
    total,
)
from onnx_workbench.model.ir.types import ElementType

E = ElementType


# -- matrices ------------------------------------------------------------------------------------------------------


def matmul(second: int = 1, kind: ElementType | None = None) -> Rule:
    """Return the rule of a product of matrices, with the second factor as this input.

    Factors are transposed by `transA` and `transB`, where the operator has them.
    """

    def rule(call: NodeCall) -> Sequence[Found]:
        left = swapped(call.dims(0), bool(call.integer("transA")))
        right = swapped(call.dims(second), bool(call.integer("transB")))
        dims = matmul_dims(left, right)
        return (dims if kind is None else Sized(kind, dims),)

    return rule


def gemm_dims(call: NodeCall, a: int = 0, b: int = 1) -> Sequence[AnySize | None]:
    """Return the dimensions of a product of two matrices, transposed by `transA` and `transB`."""
    left, right = call.dims(a), call.dims(b)
    expect_rank(left, "A", 2)
    expect_rank(right, "B", 2)
    left, right = swapped(left, bool(call.integer("transA"))), swapped(right, bool(call.integer("transB")))
    expect_equal(at(left, 1), at(right, 0), "Columns of A and rows of B")
    return (at(left, 0), at(right, 1))


def _gemm(call: NodeCall) -> Sequence[Found]:
    if call.opset < 11 and any(dims is not None and len(dims) != 2 for dims in (call.dims(0), call.dims(1))):
        return ()  # they were flattened
    return (gemm_dims(call),)


def _det(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    if dims is None:
        return (None,)
    if len(dims) < 2:
        raise SizeMismatch(f"The input has {len(dims)} dimensions, expected at least 2")
    expect_equal(dims[-1], dims[-2], "Rows and columns")
    return (dims[:-2],)


def _einsum(call: NodeCall) -> Sequence[Found]:
    left, arrow, right = call.text("equation").replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(call.node.inputs):
        raise SizeMismatch(f"The equation has {len(terms)} terms for {len(call.node.inputs)} inputs")
    sizes: dict[str, AnySize | None] = {}
    dots = 0
    for index, term in enumerate(terms):
        dims = call.dims(index)
        labels = None if dims is None else einsum_labels(term, len(dims))
        if dims is None or labels is None:
            if dims is not None:
                raise SizeMismatch(f"The term {term!r} does not fit an input of {len(dims)} dimensions")
            return (None,) if "..." in left else ((None,) * len(_einsum_result(terms, right, arrow, 0)),)
        dots = max(dots, sum(label.startswith("...") for label in labels))
        for label, size in zip(labels, dims, strict=True):
            size_before = sizes.get(label)
            if not label.startswith("..."):
                expect_equal(*((size_before, size) if 1 not in (size_before, size) else (1, 1)), f"Sizes of {label}")
            is_better = size_before is None or size_before == 1 or (isinstance(size, int) and size != 1)
            sizes[label] = size if is_better else size_before
    return ([sizes.get(label) for label in _einsum_result(terms, right, arrow, dots)],)


def _einsum_result(terms: Sequence[str], right: str, arrow: str, dots: int) -> list[str]:
    """Return the labels of the result: without an arrow, those that occur once, sorted."""
    hidden = [f"...{number}" for number in range(dots, 0, -1)]
    if arrow:
        head, has_dots, tail = right.partition("...")
        return [*head, *(hidden if has_dots else ()), *tail]
    letters = "".join(terms).replace(".", "")
    return [*hidden, *sorted(letter for letter in set(letters) if letters.count(letter) == 1)]


# -- layers --------------------------------------------------------------------------------------------------------


def recurrent(states: int) -> Rule:
    """Return the rule of a recurrent layer: all steps, then the last ones of so many states."""

    def rule(call: NodeCall) -> Sequence[Found]:
        dims, weights = call.dims(0), call.dims(2)
        expect_rank(dims, "X", 3)
        directions = 2 if call.text("direction", "forward") == "bidirectional" else 1
        hidden = call.attribute("hidden_size") or at(weights, -1)
        length, batch = at(dims, 0), at(dims, 1)
        if call.integer("layout"):
            length, batch = batch, length
            state: Found = (batch, directions, hidden)
            return ((batch, length, directions, hidden), *[state] * states)
        state = (directions, batch, hidden)
        return ((length, directions, batch, hidden), *[state] * states)

    return rule


def _attention(call: NodeCall) -> Sequence[Found]:
    """Heads are an axis of four, or concatenated in the last of three."""
    q, k, v, past_key, past_value = (call.dims(i) for i in (0, 1, 2, 4, 5))
    if q is None:
        return ()
    expect_rank(q, "Q", 3, 4)
    own, others = call.attribute("q_num_heads"), call.attribute("kv_num_heads")
    batch = merged(q[0], at(k, 0), at(v, 0), at(past_key, 0), at(past_value, 0))
    if len(q) == 4:
        own, length = q[1], q[2]
        others, keys = merged(at(k, 1), at(v, 1), at(past_key, 1)), merged(at(k, 2), at(v, 2))
        size, wide = merged(at(k, 3), q[3], at(past_key, 3)), merged(at(v, 3), at(past_value, 3))
        result: Found = (batch, own, length, wide)
    else:
        length, keys = q[1], merged(at(k, 1), at(v, 1))
        size = merged(divided(at(k, 2), others), at(past_key, 3), divided(q[2], own))
        wide = merged(divided(at(v, 2), others), at(past_value, 3))
        result = (batch, length, product(own, wide))
    every = keys if call.input(4) is None else total(at(past_key, 2), keys)
    return (
        result,
        (batch, others, every, size),
        (batch, others, keys if call.input(5) is None else total(at(past_value, 2), keys), wide),
        (batch, own, length, every),
    )


def _flex_attention(call: NodeCall) -> Sequence[Found]:
    q, k, v = call.dims(0), call.dims(1), call.dims(2)
    expect_rank(q, "Q", 4)
    return ((merged(at(q, 0), at(k, 0), at(v, 0)), at(q, 1), at(q, 2), at(v, -1)),)


def _linear_attention(call: NodeCall) -> Sequence[Found]:
    q, k, v, past = call.dims(0), call.dims(1), call.dims(2), call.dims(3)
    own, others = call.attribute("q_num_heads"), call.attribute("kv_num_heads")
    batch, length = merged(at(q, 0), at(k, 0), at(v, 0), at(past, 0)), merged(at(q, 1), at(k, 1), at(v, 1))
    value = merged(divided(at(v, -1), others), at(past, 3))
    key = merged(divided(at(k, -1), others), at(past, 2), divided(at(q, -1), own))
    return ((batch, length, product(own, value)), Sized(call.kind(3) or call.kind(0), (batch, others, key, value)))


def _causal_convolution(call: NodeCall) -> Sequence[Found]:
    dims, weights, past = call.dims(0), call.dims(1), call.dims(3)
    batch, channels = merged(at(dims, 0), at(past, 0)), merged(at(dims, 1), at(weights, 0), at(past, 1))
    return (
        None if dims is None else (batch, channels, *dims[2:]),
        (batch, channels, merged(total(at(weights, -1), -1), at(past, -1))),
    )


# -- normalization -------------------------------------------------------------------------------------------------


def _dropout(call: NodeCall) -> Sequence[Found]:
    mask = E.BOOL if call.opset >= 10 or call.node.domain else call.kind(0)
    return (call.dims(0), Sized(mask, call.dims(0)))


def _batch_normalization(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    channels = merged(at(dims, 1), *(at(call.dims(index), 0) for index in range(1, 5)))
    return (dims, *[Sized(call.kind(3) or call.kind(1), (channels,))] * (call.outputs - 1))


def _layer_normalization(call: NodeCall) -> Sequence[Found]:
    """Like the input; mean and deviation have 1 where it was normalized."""
    dims = call.dims(0)
    if dims is None:
        return (None,)
    axis = axis_of(call.integer("axis", -1), len(dims))
    kind = E.FLOAT if call.kind(0) in (E.FLOAT16, E.BFLOAT16) else call.kind(0)
    stash = call.attribute("stash_type")
    kind = E(stash) if stash in E.__members__.values() and call.node.op_type == "LayerNormalization" else kind
    statistics = Sized(kind, (*dims[:axis], *(1 for _ in dims[axis:])))
    return (Sized(call.kind(0), dims), statistics, statistics)


def _dynamic_quantize(call: NodeCall) -> Sequence[Found]:
    return (call.dims(0), (), ())


# -- losses and signals --------------------------------------------------------------------------------------------


def loss(call: NodeCall) -> tuple[Dims | None, Dims | None]:
    """A loss per label, or one number; then the logarithms of the probabilities."""
    labels = call.dims(1)
    return (labels if call.text("reduction", "mean") == "none" else (), call.dims(0))


def _dft(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    if dims is None:
        return (None,)
    wanted: AnySize | None = call.integer("axis", 1) if call.opset < 20 else -2
    if call.opset >= 20 and call.input(2) is not None:
        wanted = call.scalar(2)
    onesided, inverse = bool(call.integer("onesided")), bool(call.integer("inverse"))
    last = 1 if onesided and inverse else 2
    if call.input(1) is None and not onesided:
        return ((*dims[:-1], last),)
    if not isinstance(wanted, int):
        return ((*(None,) * (len(dims) - 1), last),)
    axis = axis_of(wanted, len(dims))
    length = dims[axis] if call.input(1) is None else call.scalar(1)
    if call.input(1) is None and onesided and inverse:  # of the whole signal
        length = (length - 1) * 2 if length is not None else None
    elif onesided and length is not None:
        length = _bins(length)
    return ((*replaced(dims, axis, length)[:-1], last),)


def _bins(length: AnySize) -> AnySize | None:
    """Return how many frequencies a real signal of a length has."""
    half = symbolic.dimension(length, 2)
    return None if half is None else half + 1


def _stft(call: NodeCall) -> Sequence[Found]:
    """Of a signal [batch, length, 1 or 2]; runtimes take one without the last axis."""
    dims, window = call.dims(0), call.dims(2)
    if dims is None:
        return ((None,) * 4,)
    frame: AnySize | None = call.scalar(3) if call.input(3) is not None else at(window, 0)
    if call.input(3) is None and call.input(2) is None:
        frame = at(dims, 1)
    step, length = call.scalar(1), at(dims, 1)
    frames = None if frame is None or step is None or length is None else frame_count(length, frame, step)
    bins = frame if frame is None or not call.integer("onesided", 1) else _bins(frame)
    return ((dims[0], frames, bins, 2),)


def _window(call: NodeCall) -> Sequence[Found]:
    return ((call.scalar(0),),)


def _mel_weights(call: NodeCall) -> Sequence[Found]:
    length = call.scalar(1)
    return ((None if length is None else _bins(length), call.scalar(0)),)


# -- others --------------------------------------------------------------------------------------------------------


def reduced(call: NodeCall) -> Sequence[Found]:
    """Without the axes that are reduced, or with 1 there."""
    dims = call.dims(0)
    if dims is None:
        return (None,)
    keeps = bool(call.integer("keepdims", 1))
    if call.node.op_type in ("ArgMax", "ArgMin"):
        axes: tuple[int, ...] | None = (call.integer("axis"),)
    elif "axes" in call.node.attributes or call.input(1) is None:
        axes = call.integers("axes") or ()
    else:
        axes = call.numbers(1)
    if axes is None:
        return ((None,) * len(dims) if keeps else None,)
    if not axes and call.integer("noop_with_empty_axes"):
        return (dims,)
    gone = {axis_of(a, len(dims)) for a in axes} or set(range(len(dims)))
    kept = (1 if a in gone else d for a, d in enumerate(dims) if keeps or a not in gone)
    return (tuple(kept),)


def _shape(call: NodeCall) -> Sequence[Found]:
    from onnx_workbench.model.inference.operators.contents import ints_end

    dims = call.dims(0)
    if dims is None:
        return ((None,),)
    return ((len(range(*slice(call.integer("start"), ints_end(call.node)).indices(len(dims)))),),)


def _non_zero(call: NodeCall) -> Sequence[Found]:
    return ((call.facts.rank(call.input(0)), None),)


def _unique(call: NodeCall) -> Sequence[Found]:
    dims, axis = call.dims(0), call.attribute("axis")
    first: Found = (None,)
    if axis is not None:
        first = None if dims is None else replaced(dims, axis_of(axis, len(dims)), None)
    inverse = at(dims, axis) if axis is not None else None if dims is None else product(*dims)
    return (first, (None,), (inverse,), (None,))


def _random(call: NodeCall) -> Sequence[Found]:
    shape = call.integers("shape")
    return (shape,)


def _multinomial(call: NodeCall) -> Sequence[Found]:
    return ((at(call.dims(0), 0), call.integer("sample_size", 1)),)


def _string_normalizer(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    return (None if not dims else (*dims[:-1], None),)


def _string_split(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    return (None if dims is None else (*dims, None), dims)


def _tf_idf(call: NodeCall) -> Sequence[Found]:
    dims, indexes = call.dims(0), call.integers("ngram_indexes")
    if dims is None or not indexes:
        return ()
    return ((*dims[:-1], max(indexes) + 1),)


def _swiglu(call: NodeCall) -> Sequence[Found]:
    a, b = call.dims(0), call.dims(1)
    if a is not None and b is not None:
        expect_rank(b, "B", len(a))
        for axis, pair in enumerate(zip(a, b, strict=True)):
            expect_equal(*pair, f"Axis {axis} of A and B")
        return (tuple(map(merged, a, b)),)
    return (a or b,)


def _eye_like(call: NodeCall) -> Sequence[Found]:
    expect_rank(call.dims(0), "The input", 2)
    return (call.dims(0),)


def _optimized(states: int) -> Rule:
    """Return the rule of an optimizer: R and T, then tensors, their gradients, and so many states of each."""

    def rule(call: NodeCall) -> Sequence[Found]:
        count = (len(call.node.inputs) - 2) // (2 + states)
        kept = [*range(2, 2 + count), *range(2 + 2 * count, 2 + (2 + states) * count)]
        return [call.tensor(index) for index in kept]

    return rule


#: The standard domain, beyond what keeps the shape of an input or broadcasts its inputs.
OTHERS: dict[str, Rule] = {
    "MatMul": matmul(),
    "MatMulInteger": matmul(),
    "QLinearMatMul": matmul(3),
    "Gemm": _gemm,
    "Det": _det,
    "Einsum": _einsum,
    "RNN": recurrent(1),
    "GRU": recurrent(1),
    "LSTM": recurrent(2),
    "Attention": _attention,
    "LinearAttention": _linear_attention,
    "CausalConvWithState": _causal_convolution,
    "Dropout": _dropout,
    "BatchNormalization": _batch_normalization,
    "LayerNormalization": _layer_normalization,
    "SimplifiedLayerNormalization": _layer_normalization,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "SoftmaxCrossEntropyLoss": loss,
    "NegativeLogLikelihoodLoss": loss,
    "DFT": _dft,
    "STFT": _stft,
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), _window),
    "MelWeightMatrix": _mel_weights,
    "Shape": _shape,
    "Size": lambda _: ((),),
    "NonZero": _non_zero,
    "NonMaxSuppression": lambda _: ((None, 3),),
    "Unique": _unique,
    "RandomNormal": _random,
    "RandomUniform": _random,
    "Multinomial": _multinomial,
    "RegexFullMatch": lambda call: (call.dims(0),),
    "RotaryEmbedding": lambda call: (call.dims(0),),
    "StringNormalizer": _string_normalizer,
    "StringSplit": _string_split,
    "TfIdfVectorizer": _tf_idf,
    "SwiGLU": _swiglu,
    "EyeLike": _eye_like,
    "SequenceLength": lambda _: ((),),
    "OptionalHasElement": lambda _: ((),),
}

#: The domains of training and of previews.
PREVIEW: dict[str, Rule] = {"FlexAttention": _flex_attention}
TRAINING: dict[str, Rule] = {
    "Adagrad": _optimized(1),
    "Adam": _optimized(2),
    "Momentum": _optimized(1),
    "Gradient": lambda call: [call.tensor(index) for index in range(call.outputs)],
}
