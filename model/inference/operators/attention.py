"""Types of com.microsoft's attention operators and their helpers for padding and selection."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.inference.operators.node_call import (
    Found,
    NodeCall,
    Rule,
    Sized,
    at,
    divided,
    product,
    same_as,
    total,
)
from onnx_workbench.model.ir.types import ElementType

E = ElementType

_Dims = Sequence[AnySize | None] | None


def _value_width(call: NodeCall) -> AnySize | None:
    """Return the width of values produced by one matrix together with queries and keys."""
    sizes = call.attribute("qkv_hidden_sizes")
    if sizes:
        return int(sizes[-1])
    biases, columns = at(call.dims(2), 0), at(call.dims(1), -1)
    return divided(biases if isinstance(biases, int) else columns, 3)


def _attention(call: NodeCall) -> Sequence[Found]:
    data, dims, past = call.tensor(0), call.dims(0), call.dims(4)
    if data is None or dims is None or len(dims) != 3:
        return ()
    width, heads = _value_width(call), call.attribute("num_heads")
    length = total(dims[1], past[3]) if past is not None and len(past) == 5 else dims[1]
    head = past[4] if past is not None and len(past) == 5 else divided(width, heads)
    return (Sized(data.element_type, (*dims[:2], width)), Sized(data.element_type, (2, dims[0], heads, length, head)))


def _packed_attention(call: NodeCall) -> Sequence[Found]:
    data, dims = call.tensor(0), call.dims(0)
    if data is None or dims is None or len(dims) != 2:
        return ()
    return (Sized(data.element_type, (dims[0], _value_width(call))),)


def _multi_head_attention(call: NodeCall) -> Sequence[Found]:
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
    present = Sized(query.element_type, (dims[0], heads, length, head))
    return (Sized(query.element_type, (*dims[:2], wide)), present, present)


def _length_of_keys(query: Sequence[AnySize | None], key: _Dims) -> AnySize | None:
    if len(query) == 5 or key is None:
        return query[1]
    return key[2] if len(key) == 4 else key[1]


def _decoder_masked(call: NodeCall) -> Sequence[Found]:
    """One more token: the caches have the maximum length."""
    query, dims, value = call.tensor(0), call.dims(0), call.dims(2)
    past = call.tensor(5)
    if query is None or dims is None:
        return ()
    wide = value[-1] if value is not None and len(value) == 3 else dims[-1]
    return (Sized(query.element_type, (*dims[:-1], wide)), past, past)


def _packed_multi_head(call: NodeCall) -> Sequence[Found]:
    query, dims, value = call.tensor(0), call.dims(0), call.dims(2)
    if query is None:
        return ()
    if value is not None and len(value) == 2:
        return (Sized(query.element_type, value),)
    if dims is None or len(dims) != 4:
        return ()
    return (Sized(query.element_type, (dims[0], product(dims[1], dims[3]))),)


def _unpacked(call: NodeCall) -> _Dims:
    """Return the dimensions of queries, where queries, keys and values may be one packed tensor."""
    dims = call.dims(0)
    is_packed = call.input(1) is None and call.input(2) is None
    if dims is None or not is_packed:
        return dims
    heads, others = call.attribute("num_heads", 0), call.attribute("kv_num_heads", 0)
    return (*dims[:-1], product(divided(dims[-1], heads + 2 * others), heads))


def _group_query_attention(call: NodeCall) -> Sequence[Found]:
    """Shaped like the queries; then the caches, whose growth is only known at run time."""
    query, dims, past = call.tensor(0), _unpacked(call), call.tensor(3)
    if query is None:
        return ()
    result = Sized(query.element_type, dims)
    if past is None or past.dims is None or len(past.dims) != 4:
        heads = call.attribute("kv_num_heads")
        head = None if dims is None else divided(dims[-1], call.attribute("num_heads"))
        present = Sized(query.element_type, (at(dims, 0), heads, None, head))
        return (result, present, present)
    batch, heads, _, size = past.dims
    present = Sized(past.element_type, (batch, heads, None, size))
    return (result, present, present)


def _sparse_attention(call: NodeCall) -> Sequence[Found]:
    """The caches have the maximum length."""
    return (*_group_query_attention(call)[:1], call.tensor(3), call.tensor(4))


def _paged_attention(call: NodeCall) -> Sequence[Found]:
    """Concatenated tokens of all sequences; the caches keep their shape."""
    query, dims = call.tensor(0), _unpacked(call)
    if query is None:
        return ()
    if dims is not None and call.attribute("kv_cache_layout") == "LATENT":
        heads, width = call.attribute("num_heads"), at(call.dims(0), -1)
        head = call.attribute("v_head_size", 0) or divided(width, heads)
        dims = (*dims[:-1], product(heads, head))
    return (Sized(query.element_type, dims), call.tensor(3), call.tensor(4))


def _gated_relative_position_bias(call: NodeCall) -> Sequence[Found]:
    query, dims, offset = call.tensor(0), call.dims(0), call.dims(6)
    if query is None:
        return ()
    sizes = offset if offset is not None and len(offset) == 2 else dims
    return (Sized(query.element_type, (at(sizes, 0), call.attribute("num_heads"), at(sizes, 1), at(sizes, 1))),)


def _relative_position_bias(call: NodeCall) -> Sequence[Found]:
    """A table of buckets and heads, and how many queries and keys there are."""
    table, dims = call.tensor(0), call.dims(0)
    if table is None:
        return ()
    heads = dims[1] if dims is not None and len(dims) == 2 else None
    return (Sized(table.element_type, (1, heads, call.scalar(1), call.scalar(2))),)


def _remove_padding(call: NodeCall) -> Sequence[Found]:
    """The number of remaining tokens is only known at run time."""
    data, dims = call.tensor(0), call.dims(0)
    if data is None or dims is None or len(dims) != 3:
        return ()
    return (
        Sized(data.element_type, (None, dims[2])),
        Sized(E.INT32, dims[:2]),
        Sized(E.INT32, (total(dims[0], 1),)),
        Sized(E.INT32, (1,)),
    )


def _restore_padding(call: NodeCall) -> Sequence[Found]:
    data, dims, offset = call.tensor(0), call.dims(0), call.dims(1)
    if data is None:
        return ()
    return (Sized(data.element_type, (at(offset, 0), at(offset, 1), at(dims, -1))),)


def _capacity(call: NodeCall) -> AnySize | None:
    if call.attribute("policy_mode") == "qsa":
        return total(call.attribute("token_budget", 0), call.attribute("compress_ratio", 0), -1)
    size: int = call.attribute("index_topk", 0)
    return size


def _sparse_indexer(call: NodeCall) -> Sequence[Found]:
    """Selected keys of each query; then the grown keys, and the incomplete window."""
    query, dims, past, waiting = call.tensor(0), call.dims(0), call.dims(7), call.dims(13)
    if query is None or dims is None:
        return ()
    chosen = Sized(E.INT32, (*dims[:2], _capacity(call)))
    if past is None or len(past) != 3:
        return (chosen,)
    is_simple = call.attribute("policy_mode") == "qsa" or waiting is None
    news, left = (dims[1], None) if is_simple else _compressed(call, at(waiting, 2), dims[1])
    is_shared = call.input(12) is not None
    present = Sized(query.element_type, (dims[0], past[1] if is_shared else total(past[1], news), at(call.dims(2), 0)))
    return (chosen, present, None if is_simple else Sized(query.element_type, (2, dims[0], left, at(waiting, 3))))


def _compressed(
    call: NodeCall, waiting: AnySize | None, length: AnySize | None
) -> tuple[AnySize | None, AnySize | None]:
    """Return the number of full windows of keys, one compressed key each, and of waiting keys; the last window is
    kept.
    """
    ratio = call.attribute("compress_ratio", 0)
    if not isinstance(waiting, int) or not isinstance(length, int) or ratio <= 0:
        return None, None
    pending = waiting - (ratio if waiting >= ratio else 0) + length
    full = pending // ratio
    return full, ratio + pending % ratio if full else waiting + length


def _packed_sparse_indexer(call: NodeCall) -> Sequence[Found]:
    """The same for concatenated tokens; its state keeps its size."""
    query, tokens = call.tensor(0), at(call.dims(0), 0)
    if query is None:
        return ()
    kept = [call.tensor(i) for i in (12, 13, 14, 15)]
    states = [None if k is None else Sized(query.element_type, k.dims) for k in kept[:3]]
    lengths = None if kept[3] is None else Sized(E.INT32, kept[3].dims)
    past = call.dims(12)
    news = (at(past, 0), call.attribute("state_update_capacity", 0), at(past, 2))
    counts = Sized(E.INT32, (tokens,))
    chosen = Sized(E.INT32, (tokens, _capacity(call)))
    return (chosen, counts, *states, lengths, Sized(query.element_type, news))


#: Rules by operator name.
ATTENTION: dict[str, Rule] = {
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
