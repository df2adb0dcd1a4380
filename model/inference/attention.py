"""Types of com.microsoft's attention operators and their helpers for padding and selection."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.inference.node_call import NodeCall, at, divided, product, same_as, tensor, total
from onnx_workbench.model.ir.types import Dimension, ElementType, TensorType, Type

E = ElementType

_Dims = tuple[Dimension, ...] | None


def _value_width(call: NodeCall) -> Dimension:
    """Return the width of values produced by one matrix together with queries and keys."""
    sizes = call.attribute("qkv_hidden_sizes")
    if sizes:
        return int(sizes[-1])
    biases, columns = at(call.dims(2), 0), at(call.dims(1), -1)
    return divided(biases if isinstance(biases, int) else columns, 3)


def _attention(call: NodeCall) -> Sequence[Type | None]:
    data, dims, past = call.tensor(0), call.dims(0), call.dims(4)
    if data is None or dims is None or len(dims) != 3:
        return ()
    width, heads = _value_width(call), call.attribute("num_heads")
    length = total(dims[1], past[3]) if past is not None and len(past) == 5 else dims[1]
    head = past[4] if past is not None and len(past) == 5 else divided(width, heads)
    return (tensor(data.element_type, (*dims[:2], width)), tensor(data.element_type, (2, dims[0], heads, length, head)))


def _packed_attention(call: NodeCall) -> Sequence[Type | None]:
    data, dims = call.tensor(0), call.dims(0)
    if data is None or dims is None or len(dims) != 2:
        return ()
    return (tensor(data.element_type, (dims[0], _value_width(call))),)


def _multi_head_attention(call: NodeCall) -> Sequence[Type | None]:
    query, dims, key, value, past = call.tensor(0), call.dims(0), call.dims(1), call.dims(2), call.dims(6)
    if query is None or dims is None or len(dims) not in (3, 5):
        return ()
    heads = call.attribute("num_heads")
    head = dims[4] if len(dims) == 5 else divided(dims[2], heads)
    length = _length_of_keys(dims, key)
    if len(dims) == 5:  # packed: batch, length, heads, 3, head size
        wide = product(dims[2], dims[4])
    elif value is not None and len(value) == 4:  # batch, heads, length, head size
        wide = product(value[1], value[3])
    else:
        wide = value[-1] if value is not None and len(value) == 3 else dims[-1]
    if past is not None and len(past) == 4:
        length = total(past[2], length)
    present = tensor(query.element_type, (dims[0], heads, length, head))
    return (tensor(query.element_type, (*dims[:2], wide)), present, present)


def _length_of_keys(query: Sequence[Dimension], key: _Dims) -> Dimension:
    if len(query) == 5 or key is None:
        return query[1]
    return key[2] if len(key) == 4 else key[1]


def _decoder_masked(call: NodeCall) -> Sequence[Type | None]:
    """One more token: the caches have the maximum length."""
    query, dims, value = call.tensor(0), call.dims(0), call.dims(2)
    past = call.inputs[5] if len(call.inputs) > 5 else None
    if query is None or dims is None:
        return ()
    wide = value[-1] if value is not None and len(value) == 3 else dims[-1]
    return (tensor(query.element_type, (*dims[:-1], wide)), past, past)


def _packed_multi_head(call: NodeCall) -> Sequence[Type | None]:
    query, dims, value = call.tensor(0), call.dims(0), call.dims(2)
    if query is None:
        return ()
    if value is not None and len(value) == 2:
        return (tensor(query.element_type, value),)
    if dims is None or len(dims) != 4:
        return ()
    return (tensor(query.element_type, (dims[0], product(dims[1], dims[3]))),)


def _unpacked(call: NodeCall) -> _Dims:
    """Return the dimensions of queries, where queries, keys and values may be one packed tensor."""
    dims = call.dims(0)
    is_packed = len(call.inputs) < 3 or (call.inputs[1] is None and call.inputs[2] is None)
    if dims is None or not is_packed:
        return dims
    heads, others = call.attribute("num_heads", 0), call.attribute("kv_num_heads", 0)
    return (*dims[:-1], product(divided(dims[-1], heads + 2 * others), heads))


def _group_query_attention(call: NodeCall) -> Sequence[Type | None]:
    """Shaped like the queries; then the caches, whose growth is only known at run time."""
    query, dims, past = call.tensor(0), _unpacked(call), call.tensor(3)
    if query is None:
        return ()
    result = tensor(query.element_type, dims)
    if past is None or past.shape is None or past.shape.rank != 4:
        heads = call.attribute("kv_num_heads")
        head = None if dims is None else divided(dims[-1], call.attribute("num_heads"))
        present = tensor(query.element_type, (at(dims, 0), heads, None, head))
        return (result, present, present)
    batch, heads, _, size = past.shape.dims
    present = tensor(past.element_type, (batch, heads, None, size))
    return (result, present, present)


def _sparse_attention(call: NodeCall) -> Sequence[Type | None]:
    """The caches have the maximum length."""
    return (*_group_query_attention(call)[:1], *call.inputs[3:5])


def _paged_attention(call: NodeCall) -> Sequence[Type | None]:
    """Concatenated tokens of all sequences; the caches keep their shape."""
    query, dims = call.tensor(0), _unpacked(call)
    if query is None:
        return ()
    if dims is not None and call.attribute("kv_cache_layout") == "LATENT":
        heads, width = call.attribute("num_heads"), at(call.dims(0), -1)
        head = call.attribute("v_head_size", 0) or divided(width, heads)
        dims = (*dims[:-1], product(heads, head))
    caches = [call.inputs[i] if i < len(call.inputs) else None for i in (3, 4)]
    return (tensor(query.element_type, dims), *caches)


def _gated_relative_position_bias(call: NodeCall) -> Sequence[Type | None]:
    query, dims, offset = call.tensor(0), call.dims(0), call.dims(6)
    if query is None:
        return ()
    sizes = offset if offset is not None and len(offset) == 2 else dims
    return (tensor(query.element_type, (at(sizes, 0), call.attribute("num_heads"), at(sizes, 1), at(sizes, 1))),)


def _relative_position_bias(call: NodeCall) -> Sequence[Type | None]:
    """A table of buckets and heads, and how many queries and keys there are."""
    table, dims = call.tensor(0), call.dims(0)
    if table is None:
        return ()
    lengths = [next(iter(given or ()), None) for given in (*call.values, None, None)[1:3]]
    return (tensor(table.element_type, (1, dims[1] if dims is not None and len(dims) == 2 else None, *lengths)),)


def _remove_padding(call: NodeCall) -> Sequence[Type | None]:
    """The number of remaining tokens is only known at run time."""
    data, dims = call.tensor(0), call.dims(0)
    if data is None or dims is None or len(dims) != 3:
        return ()
    return (
        tensor(data.element_type, (None, dims[2])),
        tensor(E.INT32, dims[:2]),
        tensor(E.INT32, (total(dims[0], 1),)),
        tensor(E.INT32, (1,)),
    )


def _restore_padding(call: NodeCall) -> Sequence[Type | None]:
    data, dims, offset = call.tensor(0), call.dims(0), call.dims(1)
    if data is None:
        return ()
    return (tensor(data.element_type, (at(offset, 0), at(offset, 1), at(dims, -1))),)


def _capacity(call: NodeCall) -> Dimension:
    if call.attribute("policy_mode") == "qsa":
        return total(call.attribute("token_budget", 0), call.attribute("compress_ratio", 0), -1)
    size: int = call.attribute("index_topk", 0)
    return size


def _sparse_indexer(call: NodeCall) -> Sequence[Type | None]:
    """Selected keys of each query; then the grown keys, and the incomplete window."""
    query, dims, past, waiting = call.tensor(0), call.dims(0), call.dims(7), call.dims(13)
    if query is None or dims is None:
        return ()
    chosen = tensor(E.INT32, (*dims[:2], _capacity(call)))
    if past is None or len(past) != 3:
        return (chosen,)
    is_simple = call.attribute("policy_mode") == "qsa" or waiting is None
    news, left = (dims[1], None) if is_simple else _compressed(call, at(waiting, 2), dims[1])
    is_shared = len(call.inputs) > 12 and call.inputs[12] is not None
    present = tensor(query.element_type, (dims[0], past[1] if is_shared else total(past[1], news), at(call.dims(2), 0)))
    return (chosen, present, None if is_simple else tensor(query.element_type, (2, dims[0], left, at(waiting, 3))))


def _compressed(call: NodeCall, waiting: Dimension, length: Dimension) -> tuple[Dimension, Dimension]:
    """Return the number of full windows of keys, one compressed key each, and of waiting keys; the last window is
    kept.
    """
    ratio = call.attribute("compress_ratio", 0)
    if not isinstance(waiting, int) or not isinstance(length, int) or ratio <= 0:
        return None, None
    pending = waiting - (ratio if waiting >= ratio else 0) + length
    full = pending // ratio
    return full, ratio + pending % ratio if full else waiting + length


def _packed_sparse_indexer(call: NodeCall) -> Sequence[Type | None]:
    """The same for concatenated tokens; its state keeps its size."""
    query, tokens = call.tensor(0), at(call.dims(0), 0)
    if query is None:
        return ()
    kept = [call.tensor(i) for i in (12, 13, 14, 15)]
    states: list[TensorType | None] = [None if k is None else TensorType(query.element_type, k.shape) for k in kept[:3]]
    lengths = None if kept[3] is None else TensorType(E.INT32, kept[3].shape)
    past = call.dims(12)
    news = (at(past, 0), call.attribute("state_update_capacity", 0), at(past, 2))
    counts = tensor(E.INT32, (tokens,))
    chosen = tensor(E.INT32, (tokens, _capacity(call)))
    return (chosen, counts, *states, lengths, tensor(query.element_type, news))


#: Rules by operator name.
ATTENTION = {
    "Attention": _attention,
    "QAttention": _attention,
    "PackedAttention": _packed_attention,
    "MultiHeadAttention": _multi_head_attention,
    "DecoderMaskedMultiHeadAttention": _decoder_masked,
    "PackedMultiHeadAttention": _packed_multi_head,
    "GroupQueryAttention": _group_query_attention,
    "SparseAttention": _sparse_attention,
    "DynamicSparseAttention": _group_query_attention,
    "PagedAttention": _paged_attention,
    "SparsePagedAttention": _paged_attention,
    "GatedRelativePositionBias": _gated_relative_position_bias,
    "RelativePositionBias": _relative_position_bias,
    "RemovePadding": _remove_padding,
    "RestorePadding": _restore_padding,
    "SparseAttentionIndexer": _sparse_indexer,
    "PackedSparseAttentionIndexer": _packed_sparse_indexer,
    **dict.fromkeys(("LongformerAttention", "DecoderMaskedSelfAttention"), same_as(0)),
}
