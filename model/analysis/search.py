"""Find nodes and values by words, types, shapes, operators and attributes, in every graph of a model.

A query is a list of words that must all match: ``conv 1,64,56,56`` or ``op:Conv attr:group=1 name:/layer[0-9]+/``.

    word               part of a name, operator type, domain or text attribute; or a whole dtype, shape or dimension
    "Exact"            the whole name or operator type, capitals as written
    op:Conv            operator type (op:com.microsoft:Gelu with its domain); * stands for anything
    name:/regex/       name, as a regular expression; name:word as part of it
    attr:axis=1        attribute with this value; attr:axis has it at all
    dtype:float16      element type of a value, or of any input or output of a node
    shape:1,?,224,*    shape; ? one dimension of any size, * any number of them
    is:input           also output, initializer, constant, unused, undefined, node, value
    -word              not this
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from onnx_workbench.model.analysis.value_types import TypeOf, declared_type
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import Dimension, ElementType, SparseTensorType, TensorType
from onnx_workbench.model.text.attributes import parse_attribute
from onnx_workbench.model.text.regular_expressions import RegularExpression
from onnx_workbench.model.text.types import ALIASES

Item = Node | Value
Test = Callable[[Item], bool]

_BREATH = 256  # items between two Nones


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query."""

    tests: tuple[Test, ...]

    def matches(self, item: Item) -> bool:
        """Return whether a node or value satisfies every word."""
        return all(test(item) for test in self.tests)


def parse(text: str, type_of: TypeOf | None = None) -> Query:
    """Parse a query; ModelError for an invalid regular expression or state.

    `type_of` gives the types to search by (inferred ones); by default the declared ones.
    """
    parser = _Parser(type_of or declared_type)
    return Query(tuple(parser.test(word) for word in _words(text)))


def search(model: Model, query: Query) -> Iterator[Item | None]:
    """Yield every match in graph order, nodes before their values, constants last; None regularly, so that the caller
    can pause.

    ModelError during iteration when a regular expression exceeds its time limit.
    """
    if not query.tests:
        return
    count = 0
    for graph in model.graphs():
        for item in _items(graph):
            count += 1
            if item is not None and query.matches(item):
                yield item
            elif not count % _BREATH:
                yield None


def _items(graph: Graph) -> Iterator[Item | None]:
    """Yield all objects of a graph, once each; None for a value yielded before."""
    yield from graph.required_inputs
    for node in graph.nodes:
        yield node
        yield from (value for value in node.outputs if value is not None)
    yield from graph.initializers
    for value in graph.values():
        yield None if value.is_defined else value


_WORD = re.compile(
    r"""-?(?:[a-z]+:)?(?:
        "(?P<double>[^"]*)"? | '(?P<single>[^']*)'? | /(?:\\.|[^/\\])*/i? | [^\s\[]*\[[^\]]*\]? | \S+
    )""",
    re.VERBOSE,
)


def _words(text: str) -> list[str]:
    """Split at spaces, keeping quoted parts, regular expressions and lists together."""
    return [m[0] for m in _WORD.finditer(text) if m[0].strip("-\"' ")]


class _Parser:
    def __init__(self, type_of: TypeOf) -> None:
        self._type_of = type_of

    def test(self, word: str) -> Test:
        if word.startswith("-") and len(word) > 1:
            inner = self.test(word[1:])
            return lambda item: not inner(item)
        key, colon, rest = word.partition(":")
        make = _KEYS.get(key.lower()) if colon and not word.startswith(("'", '"', "/")) else None
        if make is not None:
            return make(self, rest)
        if word[0] in "\"'":
            exact = word.strip(word[0])
            return lambda item: item.name == exact or (isinstance(item, Node) and item.op_type == exact)
        if len(word) > 1 and word[0] == "/" and word.rstrip("i").endswith("/"):
            return self.name(word)
        return self.word(word)

    def word(self, word: str) -> Test:
        """Match a plain word by Netron's rule: part of a name, or for values a whole dtype, shape or dimension."""
        lower = word.lower()
        dims = _dims(word)

        def test(item: Item) -> bool:
            if lower in item.name.lower():
                return True
            if isinstance(item, Node):
                return lower in item.op_type.lower() or lower in item.domain.lower() or _in_text(item, lower)
            kind = self._type_of(item)
            if not isinstance(kind, (TensorType, SparseTensorType)):
                return False
            if _element(kind) == lower:
                return True
            shape = kind.shape.dims if kind.shape is not None else ()
            return _fits(shape, dims) if len(dims) > 1 else len(dims) == 1 and any(str(d) == word for d in shape)

        return test

    def operator(self, rest: str) -> Test:
        pattern = rest.strip("\"'").lower()

        def test(item: Item) -> bool:
            if not isinstance(item, Node):
                return False
            plain = item.op_type.lower()
            return fnmatchcase(plain, pattern) or fnmatchcase(f"{item.domain.lower()}:{plain}", pattern)

        return test

    def name(self, rest: str) -> Test:
        if rest.startswith("/") and rest.rstrip("i").endswith("/") and len(rest) > 1:
            body = rest.rstrip("i")[1:-1] if rest.endswith("i") else rest[1:-1]
            expression = RegularExpression(body, ignores_case=rest.endswith("i"))
            return lambda item: expression.is_in(item.name)
        if rest[:1] in ("'", '"'):
            exact = rest.strip(rest[0])
            return lambda item: item.name == exact
        lower = rest.lower()
        return lambda item: lower in item.name.lower()

    def attribute(self, rest: str) -> Test:
        name, equals, wanted = rest.partition("=")
        wanted, numbers = _plain(wanted), _numbers(wanted)

        def test(item: Item) -> bool:
            if not isinstance(item, Node) or name not in item.attributes:
                return False
            attribute = item.attributes[name]
            most = len(wanted)  # each part makes the text longer by one at least
            if not equals or _plain(value_text(attribute.reference or attribute.value, most)) == wanted:
                return True
            held = attribute.value if attribute.kind is AttributeKind.FLOATS else (attribute.value,)
            return attribute.kind.element is AttributeKind.FLOAT and held == numbers

        return test

    def dtype(self, rest: str) -> Test:
        wanted = ALIASES.get(rest.lower(), rest.lower())

        def fits(value: Value | None) -> bool:
            kind = None if value is None else self._type_of(value)
            return isinstance(kind, (TensorType, SparseTensorType)) and _element(kind) == wanted

        return self._about_values(fits)

    def shape(self, rest: str) -> Test:
        dims = _dims(rest.strip("[]()"))

        def fits(value: Value | None) -> bool:
            kind = None if value is None else self._type_of(value)
            if not isinstance(kind, (TensorType, SparseTensorType)) or kind.shape is None:
                return False
            return _fits(kind.shape.dims, dims)

        return self._about_values(fits)

    def _about_values(self, fits: Callable[[Value | None], bool]) -> Test:
        return lambda item: any(map(fits, (*item.inputs, *item.outputs))) if isinstance(item, Node) else fits(item)

    def state(self, rest: str) -> Test:
        test = _STATES.get(rest.lower())
        if test is None:
            raise ModelError(f"is:{rest} is not known", f"Use one of: {', '.join(_STATES)}.")
        return test


_KEYS: dict[str, Callable[[_Parser, str], Test]] = {
    "op": _Parser.operator,
    "name": _Parser.name,
    "attr": _Parser.attribute,
    "dtype": _Parser.dtype,
    "shape": _Parser.shape,
    "is": _Parser.state,
}
_STATES: dict[str, Test] = {
    "node": lambda item: isinstance(item, Node),
    "value": lambda item: isinstance(item, Value),
    "input": lambda item: isinstance(item, Value) and item.is_input,
    "output": lambda item: isinstance(item, Value) and item.is_output,
    "initializer": lambda item: isinstance(item, Value) and item.initializer is not None,
    "constant": lambda item: (
        item.op_type == "Constant" if isinstance(item, Node) else item.initializer is not None and not item.is_input
    ),
    "unused": lambda item: isinstance(item, Value) and not item.uses,
    "undefined": lambda item: isinstance(item, Value) and not item.is_defined,
}


def _in_text(node: Node, lower: str) -> bool:
    return any(isinstance(a.value, str) and lower in a.value.lower() for a in node.attributes.values())


def _element(kind: TensorType | SparseTensorType) -> str:
    return kind.element_type.text if isinstance(kind.element_type, ElementType) else str(kind.element_type)


def _dims(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"[,×]|(?<![a-z])x(?![a-z])", text.strip("[]()"))] if text else []


def _fits(shape: Sequence[Dimension], wanted: Sequence[str]) -> bool:
    """Match a shape; ``?`` is one dimension of any size, ``*`` any number of them."""
    if "*" in wanted:
        star = list(wanted).index("*")
        before, after = wanted[:star], wanted[star + 1 :]
        if len(shape) < len(before) + len(after):
            return False
        return _fits(shape[: len(before)], before) and _fits(shape[len(shape) - len(after) :], after)
    return len(shape) == len(wanted) and all(w == "?" or w == str(d) for d, w in zip(shape, wanted, strict=True))


def value_text(value: object, most: int | None = None) -> str:
    """Format an attribute's value as in a query: ``[3,3]``, ``1``, ``SAME_UPPER``; of a list the first `most` parts."""
    if isinstance(value, tuple):
        return "[" + ",".join(value_text(part) for part in value[:most]) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _numbers(text: str) -> tuple[float, ...] | None:
    """Parse a list of floats in any notation; None when it is not one."""
    try:
        numbers: tuple[float, ...] = parse_attribute(text, AttributeKind.FLOATS)
    except ModelError:
        return None
    return numbers


def _plain(text: str) -> str:
    return text.replace(" ", "").strip("\"'").lower()
