"""Elementwise arithmetic on tensors from a typed expression: ``x*0.5``, ``clip(x, 0, 1)``, ``where(x < 0, 0, x)``.

The text is parsed with Python's parser and its AST interpreted; only the functions and operators listed here are
accepted, and nothing is evaluated as code. Numbers become numpy scalars at once, so that powers of integer constants
cannot exhaust memory.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from onnx_workbench.model.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST = 1000
_DEEPEST = 60

_OPERATORS: Final[Mapping[type, Callable[[Any, Any], Any]]] = MappingProxyType({
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: np.power,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
})  # fmt: skip


def _sigmoid(x: Any) -> Any:
    return 0.5 * (1 + np.tanh(0.5 * np.asarray(x)))


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


#: Functions of numbers, with the number of arguments of each.
FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Any], int]]] = MappingProxyType({
    "abs": (np.abs, 1), "sign": (np.sign, 1), "sqrt": (np.sqrt, 1), "exp": (np.exp, 1), "log": (np.log, 1),
    "log2": (np.log2, 1), "log10": (np.log10, 1), "sin": (np.sin, 1), "cos": (np.cos, 1), "tan": (np.tan, 1),
    "tanh": (np.tanh, 1), "floor": (np.floor, 1), "ceil": (np.ceil, 1), "round": (np.rint, 1),
    "trunc": (np.trunc, 1), "sigmoid": (_sigmoid, 1), "relu": (_relu, 1), "isnan": (np.isnan, 1),
    "isinf": (np.isinf, 1), "isfinite": (np.isfinite, 1), "real": (np.real, 1), "imag": (np.imag, 1),
    "conj": (np.conj, 1), "minimum": (np.minimum, 2), "maximum": (np.maximum, 2), "clip": (np.clip, 3),
    "where": (np.where, 3),
})  # fmt: skip

#: The elements of a tensor, flat, in pieces that are not empty; anew at each call.
_Pieces = Callable[[], Iterable["NDArray[Any]"]]


def _wide(piece: NDArray[Any]) -> NDArray[Any]:
    return piece.astype(np.complex128 if piece.dtype.kind == "c" else np.float64, copy=False)


def _min(pieces: _Pieces) -> Any:
    return np.min([np.min(piece) for piece in pieces()])


def _max(pieces: _Pieces) -> Any:
    return np.max([np.max(piece) for piece in pieces()])


def _sum(pieces: _Pieces) -> Any:
    return np.sum([np.sum(_wide(piece)) for piece in pieces()])


def _mean(pieces: _Pieces) -> Any:
    return _sum(pieces) / sum(piece.size for piece in pieces())


def _std(pieces: _Pieces) -> Any:
    mean = _mean(pieces)

    def squares() -> Iterator[NDArray[Any]]:
        for piece in pieces():
            off = _wide(piece) - mean
            yield off.real * off.real + off.imag * off.imag if off.dtype.kind == "c" else off * off

    return np.sqrt(_mean(squares))


#: Functions of the whole tensor; their argument is always x.
REDUCTIONS: Final[Mapping[str, Callable[[_Pieces], Any]]] = MappingProxyType({
    "min": _min, "max": _max, "mean": _mean, "std": _std, "sum": _sum,
})  # fmt: skip

_CONSTANTS: Final[Mapping[str, Any]] = MappingProxyType({
    "pi": np.float64(np.pi), "e": np.float64(np.e), "inf": np.float64(np.inf), "nan": np.float64(np.nan),
})  # fmt: skip

HINT: Final = (
    "x is the value, i its position. Functions: "
    + ", ".join(sorted((*FUNCTIONS, *(f"{name}(x)" for name in REDUCTIONS))))
    + "."
)


class TensorExpression:
    """A parsed expression. ModelError on malformed text names the problem."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        if len(self.text) > _LONGEST:
            raise ModelError("The expression is too long", f"At most {_LONGEST} characters are read.")
        try:
            self._tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else "it is nested too deeply"
            raise ModelError("This is not an expression", f"{reason}. {HINT}") from None
        self.reductions: set[str] = set()
        self._check(self._tree, 0)

    def _check(self, node: ast.AST, depth: int) -> None:
        if depth > _DEEPEST:
            raise ModelError("This is not an expression", "It is nested too deeply.")
        parts: list[ast.AST] = []
        match node:
            case ast.Constant(value=bool() | int() | float() | complex()):
                if isinstance(node.value, int) and abs(node.value) >= 1 << 64:
                    raise ModelError("This number is too large", "Whole numbers have at most 64 bits.")
            case ast.Name(id=name) if name in ("x", "i") or name in _CONSTANTS:
                pass
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert()):
                parts = [node.operand]
            case ast.BinOp(op=op) if type(op) in _OPERATORS:
                parts = [node.left, node.right]
            case ast.Compare(ops=[op]) if type(op) in _OPERATORS:
                parts = [node.left, node.comparators[0]]
            case ast.Call(func=ast.Name(id=name), keywords=[]):
                parts = self._check_call(name, node.args)
            case _:
                raise ModelError(f"{self._source(node)} is not supported here", HINT)
        for part in parts:
            self._check(part, depth + 1)

    def _check_call(self, name: str, arguments: list[ast.expr]) -> list[ast.AST]:
        if name in REDUCTIONS:
            if [getattr(a, "id", "") for a in arguments] != ["x"]:
                raise ModelError(f"{name} takes only x", f"Write {name}(x), or minimum and maximum of two values.")
            self.reductions.add(name)
            return []
        if name not in FUNCTIONS:
            raise ModelError(f"There is no function {name[:40]!r}", HINT)
        wanted = FUNCTIONS[name][1]
        if len(arguments) != wanted:
            raise ModelError(f"{name} takes {wanted} values", f"{len(arguments)} are given.")
        return list(arguments)

    def _source(self, node: ast.AST) -> str:
        segment = ast.get_source_segment(self.text, node) if hasattr(node, "lineno") else None
        return repr((segment or type(node).__name__)[:40])

    def reduce(self, pieces: _Pieces) -> dict[str, Any]:
        """Compute the reductions min(x), mean(x) … that the expression uses; {} when it uses none."""
        if self.reductions and next(iter(pieces()), None) is None:
            raise ModelError("The tensor is empty", f"{min(self.reductions)}(x) has no value.")
        with np.errstate(all="ignore"):
            return {name: REDUCTIONS[name](pieces) for name in self.reductions}

    def __call__(self, x: NDArray[Any], i: NDArray[Any], reduced: Mapping[str, Any]) -> NDArray[Any]:
        """Evaluate for a block of elements; `reduced` comes from `reduce` over the whole tensor. Same shape as the
        block.
        """
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(self._value(self._tree, {"x": x, "i": i, **_CONSTANTS}, reduced))
                return np.broadcast_to(result, x.shape)
        except (TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
            raise ModelError("The expression cannot be computed", str(error)) from error

    def _value(self, node: ast.AST, names: Mapping[str, Any], reduced: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant(value=bool() | complex()):
                return node.value
            case ast.Constant(value=int() as whole):
                return np.int64(whole) if whole < 1 << 63 else np.uint64(whole)
            case ast.Constant(value=float() as number):
                return np.float64(number)
            case ast.Name(id=name):
                return names[name]
            case ast.UnaryOp(op=op):
                value = self._value(node.operand, names, reduced)
                if isinstance(op, ast.Invert):
                    return np.logical_not(value) if np.asarray(value).dtype.kind == "b" else np.invert(value)
                return np.negative(value) if isinstance(op, ast.USub) else value
            case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
                a, b = self._value(left, names, reduced), self._value(right, names, reduced)
                return _apply(op, a, b)
            case ast.Call(func=ast.Name(id=name)):
                if name in reduced:
                    return reduced[name]
                return FUNCTIONS[name][0](*(self._value(a, names, reduced) for a in node.args))
        raise AssertionError(node)


def _apply(op: ast.AST, a: Any, b: Any) -> Any:
    """Apply one operator; negative powers of integers give fractions, and bools count as numbers."""
    if isinstance(op, (ast.Add, ast.Sub, ast.Mult, ast.Pow)):
        a, b = (np.asarray(v).astype(np.int64) if np.asarray(v).dtype.kind == "b" else v for v in (a, b))
    if isinstance(op, ast.Pow) and np.asarray(b).dtype.kind in "iu" and np.any(np.asarray(b) < 0):
        b = np.asarray(b, np.float64)
    return _OPERATORS[type(op)](a, b)
