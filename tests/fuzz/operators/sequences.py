"""Sequences, optionals, strings."""

from __future__ import annotations

import numpy as np

from tests.fuzz.generator import BOOL, FLOAT, I64, STRING, Builder, Value
from tests.fuzz.operators.registry import operator


@operator("SequenceAt")
def sequence(g: Builder) -> Value:
    x = g.pick((FLOAT, I64), (1, 2))
    again = g.add("Identity", [x], (x.kind, x.dims))
    items = g.add("SequenceConstruct", [x, again], (x.kind, x.dims), form="sequence")
    if g.chance(0.4):
        items = g.add("SequenceInsert", [items, x], (x.kind, x.dims), form="sequence")
    if g.chance(0.3):
        items = g.add("SequenceErase", [items, g.constant(np.asarray(0, np.int64))], (x.kind, x.dims), form="sequence")
    how = g.rng.choice(("at", "length", "join", "stack"))
    if how == "at":
        at = g.constant(np.asarray(g.rng.choice((0, -1)), np.int64))
        return g.add("SequenceAt", [items, at], (x.kind, x.dims))
    if how == "length":
        return g.add("SequenceLength", [items], (I64, ()))
    if how == "stack":
        return g.add("ConcatFromSequence", [items], (x.kind, (g.unknown(), *x.dims)), axis=0, new_axis=1)
    return g.add("ConcatFromSequence", [items], (x.kind, (g.unknown(), *x.dims[1:])), axis=0)


@operator("SplitToSequence", weight=0.5)
def split_to_sequence(g: Builder) -> Value:
    x = g.pick((FLOAT, I64), (2, 3), test=lambda v: isinstance(v.dims[0], int) and v.dims[0] > 0)
    keep = g.rng.choice((None, 0, 1))
    dims = x.dims[1:] if keep == 0 else (1, *x.dims[1:])
    items = g.add("SplitToSequence", [x], (x.kind, dims), form="sequence", axis=0, keepdims=keep)
    return g.add("SequenceAt", [items, g.constant(np.asarray(0, np.int64))], (x.kind, dims))


@operator("Optional", weight=0.5)
def optional(g: Builder) -> Value:
    x = g.pick((FLOAT, I64))
    wrapped = g.add("Optional", [x], (x.kind, x.dims), form="optional")
    if g.chance(0.5):
        return g.add("OptionalGetElement", [wrapped], (x.kind, x.dims))
    return g.add("OptionalHasElement", [wrapped], (BOOL, ()))


@operator("Identity")
def strings(g: Builder) -> Value:
    x = g.pick((STRING,))
    how = g.rng.choice(("normalize", "concat", "match", "length", "equal", "identity"))
    if how == "normalize" and x.rank == 1 and isinstance(x.dims[0], int) and g.opset >= 10:
        action = g.rng.choice((None, "LOWER", "UPPER"))
        return g.add("StringNormalizer", [x], (STRING, x.dims), case_change_action=action)
    if g.opset >= 20 and how == "concat":
        return g.add("StringConcat", [x, g.like(STRING, x.dims)], (STRING, x.dims))
    if g.opset >= 20 and how == "match":
        return g.add("RegexFullMatch", [x], (BOOL, x.dims), pattern=g.rng.choice(("[a-z]*", ".*,.*", "\\d+")))
    if g.opset >= 20 and how == "length":
        return g.add("StringSplit", [x], (STRING, (*x.dims, g.unknown())), (I64, x.dims), delimiter=",")
    if g.opset >= 19 and how == "equal":
        return g.add("Equal", [x, g.like(STRING, x.dims)], (BOOL, x.dims))
    return g.add("Identity", [x], (STRING, x.dims))
