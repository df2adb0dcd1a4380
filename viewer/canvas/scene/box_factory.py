"""Factory of boxes: texts and sizes of nodes, pills, groups and containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from itertools import islice

from onnx_workbench.model.analysis.name_scopes import Scope, is_constant
from onnx_workbench.model.analysis.node_constants import constant_tensor
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.schemas import Schema, find
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.canvas.scene import node_text
from onnx_workbench.viewer.canvas.scene.drawing import (
    BUTTON,
    HEADER,
    NARROWEST,
    PILL,
    ROW,
    ROWS_PADDING,
    SIDE,
    STACK,
    WIDEST,
    Box,
    Button,
    DrawingOptions,
    Kind,
    Style,
    TextMeasure,
)
from onnx_workbench.viewer.canvas.scene.node_text import FoldTag, NodeRow
from onnx_workbench.viewer.style.theme import operator_category
from onnx_workbench.viewer.style.type_texts import value_text

_GAP = 10.0  # between the columns of a row, between title and note
_WIDEST_TITLE = 230.0
_TITLE_LIMIT = 200
_MOST_COMPARED = 4_000  # nodes of a stack; each takes 5 us of the window's time after an edit among them


class BoxFactory:
    """Factory of boxes with a cache for nodes, invalidated by `forget`."""

    def __init__(self, measure: TextMeasure, options: DrawingOptions) -> None:
        self._measure = measure
        self._options = options
        self._schemas: dict[tuple[str, str, int], Schema | None] = {}
        self._nodes: dict[Node, Box] = {}

    @property
    def options(self) -> DrawingOptions:
        """Options the boxes were made for."""
        return self._options

    def forget(self, nodes: Iterable[Node]) -> None:
        """Invalidate the boxes of these objects."""
        for node in nodes:
            self._nodes.pop(node, None)

    def node(
        self, node: Node, key: Hashable, parent: int, buttons: tuple[Button, ...], tags: tuple[FoldTag, ...] = ()
    ) -> Box:
        """Return the card of a node, its constants, folded Constants and tags as rows."""
        cached = self._nodes.get(node)
        if cached is not None and cached.buttons == buttons and cached.tags == tags:
            if cached.parent == parent and cached.key == key:
                return cached
            return Box(
                Kind.NODE, node, key, cached.title, cached.note, cached.rows, cached.category, buttons, parent,
                cached.width, cached.height, cached.names_width, tags,
            )  # fmt: skip
        title, note = self._header(node)
        rows = (*self._data_rows((node,)), *self._rows(node), *map(node_text.tag_row, tags))
        box = self._sized(Kind.NODE, node, key, title, note, rows, _category(node, buttons), buttons, parent)
        box.tags = tags
        self._nodes[node] = box
        return box

    def pill(self, kind: Kind, value: Value, key: Hashable, parent: int, type_: Type | None) -> Box:
        """Return the pill of an input, output or outer value of a graph: its name and type."""
        measure = self._measure
        title = measure.elided(display(value.name, _TITLE_LIMIT) or "(unnamed)", Style.NAME, 180.0, middle=True)
        if kind is Kind.OUTER and not value.is_defined and value.graph is None:
            note = "not defined"
        else:
            note = value_text(value, type_, self.options.prefix)
        if value.initializer is not None:
            note = node_text.tensor_text(value.initializer)
        note = measure.elided(" · ".join(filter(None, (note, node_text.split_text(value)))), Style.ROW, 200.0)
        width = measure.width(title, Style.NAME) + PILL
        if note:
            width += _GAP + measure.width(note, Style.ROW)
        return Box(kind, value, key, title, note, (), "", (), parent, max(NARROWEST, _even(width)), PILL)

    def group(self, scope: Scope, key: Hashable, parent: int, folded: Container[Node] = ()) -> Box:
        """Return the card of a closed group: its name, the number of nodes and their operators, without folded ones."""
        shown = (node.op_type for node in scope.all_nodes() if node.op_type != "Constant" and node not in folded)
        operators = Counter(shown).most_common() or scope.operators()
        texts = [f"{display(op, 30)} {count}" if count > 1 else display(op, 30) for op, count in operators[:3]]
        if len(operators) > 3:
            texts.append(f"{len(operators) - 3} more")
        rows = [NodeRow("", plural(scope.count, "node"), None), NodeRow("", " · ".join(texts), None)]
        if scope.is_stack:
            rows[0] = NodeRow("", f"{len(scope.children)} × {plural(scope.children[0].count, 'node')}", None)
            rows += [NodeRow("", text, None) for text in _differences(scope)]
        rows += [NodeRow("", f"{row.name}: {row.text}", row.subject) for row in self._data_rows(scope.all_nodes())]
        category = operator_category("", operators[0][0]) if operators else "custom"
        title = display(scope.name, _TITLE_LIMIT)
        box = self._sized(Kind.GROUP, scope, key, title, "", tuple(rows), category, ("+",), parent)
        box.width += STACK
        box.height += STACK
        return box

    def container(
        self,
        subject: Scope | Node | Graph,
        key: Hashable,
        parent: int,
        *,
        title: str = "",
        buttons: tuple[Button, ...] = ("−",),
    ) -> Box:
        """Return the frame of an expanded group, body or function, without a size, which the layout determines."""
        measure = self._measure
        category, note = "", ""
        if isinstance(subject, Node):
            title, note = self._header(subject)
            category = _category(subject, buttons)
        elif isinstance(subject, Scope):
            title = display(subject.name, _TITLE_LIMIT)
            note = plural(subject.count, "node")
            note = " · ".join((note, *(f"{row.name}: {row.text}" for row in self._data_rows(subject.all_nodes()))))
        title = measure.elided(title, Style.HEADER, _WIDEST_TITLE, middle=True)
        note = measure.elided(note, Style.ROW, _WIDEST_TITLE, middle=True)
        width = SIDE * 2 + measure.width(title, Style.HEADER) + len(buttons) * BUTTON
        if note:
            width += _GAP + measure.width(note, Style.ROW)
        return Box(Kind.CONTAINER, subject, key, title, note, (), category, buttons, parent, _even(width), HEADER)

    def _header(self, node: Node) -> tuple[str, str]:
        operator = display(node.op_type, _TITLE_LIMIT) or "(no operator)"
        if self._options.names and node.name:
            return display(node.name, _TITLE_LIMIT), operator
        leaf = node.name.rpartition("/")[2]
        return operator, display(leaf, 60) if leaf and not leaf.startswith(node.op_type) else ""

    def _schema(self, node: Node) -> Schema | None:
        imports = node.graph.opset_imports if node.graph is not None else {}
        key = (node.domain, node.op_type, imports.get(node.domain, 1))
        if key not in self._schemas:
            self._schemas[key] = find(node.op_type, key[2], node.domain)
        return self._schemas[key]

    def _data_rows(self, nodes: Iterable[Node]) -> list[NodeRow]:
        """Return the row with the data of a node, or with those of several."""
        data = self._options.data
        texts = None if data is None else data.of(nodes)
        return [] if texts is None else [NodeRow(*texts, data)]

    def _rows(self, node: Node) -> tuple[NodeRow, ...]:
        options = self._options
        schema = self._schema(node)
        rows: list[NodeRow] = []
        if options.initializers:
            for index, value in enumerate(node.inputs):
                if value is None:
                    continue
                tensor = value.initializer
                if tensor is not None:
                    row = node_text.constant_row(node_text.input_name(node, index, schema), value, tensor)
                    split = node_text.split_text(value, (node,)) if node.device_configurations else ""
                    rows.append(row._replace(text=f"{row.text} · {split}") if split else row)
                elif value.producer is not None and value.producer.op_type == "Constant":
                    folded = self._folded_row(node_text.input_name(node, index, schema), value, value.producer)
                    if folded is not None:
                        rows.append(folded)
        if options.attributes:
            rows += node_text.attribute_rows(node, schema)
        return node_text.limited(rows)

    def _folded_row(self, name: str, value: Value, producer: Node) -> NodeRow | None:
        uses = value.uses
        if producer.domain or (len(uses) > 1 and not self._options.fold_shared_constants):
            return None
        if not all(isinstance(user, Node) and user.graph is producer.graph for user, _ in uses):
            return None
        attribute = next(iter(producer.attributes.values()), None)
        text = node_text.attribute_text(attribute) if attribute is not None else ""
        return NodeRow(display(name, 40), text, value)

    def _sized(
        self,
        kind: Kind,
        subject: Node | Scope,
        key: Hashable,
        title: str,
        note: str,
        rows: tuple[NodeRow, ...],
        category: str,
        buttons: tuple[Button, ...],
        parent: int,
    ) -> Box:
        measure = self._measure
        title = measure.elided(title, Style.HEADER, _WIDEST_TITLE, middle=True)
        header = SIDE * 2 + measure.width(title, Style.HEADER) + len(buttons) * BUTTON
        names = max((measure.width(row.name, Style.NAME) for row in rows), default=0.0)
        names = min(names, 110.0)
        indent = SIDE + (names + _GAP if names else 0.0)
        rows_width = max((indent + measure.width(row.text, Style.ROW) + SIDE for row in rows), default=0.0)
        width = _even(min(max(header, rows_width, NARROWEST), WIDEST))
        if rows_width > width or names == 110.0:
            rows = tuple(
                NodeRow(
                    measure.elided(row.name, Style.NAME, 110.0),
                    measure.elided(row.text, Style.ROW, width - indent - SIDE),
                    row.subject,
                )
                for row in rows
            )
        if note:
            room, needed = width - header - _GAP, measure.width(note, Style.ROW)
            note = measure.elided(note, Style.ROW, room, middle=True) if room >= min(needed, 64.0) else ""
        height = HEADER + (len(rows) * ROW + 2 * ROWS_PADDING if rows else 0.0)
        return Box(kind, subject, key, title, note, rows, category, buttons, parent, width, height, names)


def _differences(stack: Scope) -> list[str]:
    """Return the text of a stack's differences; none where none are found and not all has been compared."""
    texts = differences(stack)
    if not texts:
        return ["all of the same sizes"] if stack.count <= _MOST_COMPARED else []
    return [texts[0] + (f" · {len(texts) - 1} more differ" if len(texts) > 1 else "")]


def differences(stack: Scope) -> list[str]:
    """Return in what sizes of weights, or else attributes, the scopes of a stack differ.

    Of more than 4,000 nodes, the first and the last scope and some between them are compared, of each the same nodes.
    """
    step = max(1, -(-stack.count // _MOST_COMPARED))
    compared = list(dict.fromkeys((*stack.children[::step], stack.children[-1])))
    rows = zip(*(islice(scope.all_nodes(), _MOST_COMPARED // len(compared)) for scope in compared), strict=False)
    unequal = ((alike[0], next(_unequal(alike), "")) for alike in rows if not is_constant(alike[0]))
    return [f"{display(node.op_type, 30)} {difference}" for node, difference in unequal if difference]


def _unequal(alike: tuple[Node, ...]) -> Iterator[str]:
    """Yield the sizes of weights and attributes in which nodes differ: that of the first, and the last other one."""
    for weights in zip(*(map(_size, node.inputs) for node in alike), strict=False):
        if "" not in weights and (other := _last_other(weights)):
            yield f"{weights[0]} … {other}"
    for name in dict.fromkeys(name for node in alike for name, a in node.attributes.items() if not a.graphs):
        values = [node_text.attribute_text(node.attributes[name]) if name in node.attributes else "–" for node in alike]
        if other := _last_other(values):
            yield f"{display(name, 30)} {values[0]} … {other}"


def _last_other(texts: Sequence[str]) -> str:
    return next((text for text in reversed(texts) if text != texts[0]), "")


def _size(value: Value | None) -> str:
    """Return the shape of a weight; empty for what is none."""
    maker = value.producer if value is not None else None
    tensor = constant_tensor(maker) if maker is not None else value.initializer if value is not None else None
    return "" if tensor is None else "×".join(map(str, tensor.shape)) or "1"


def _category(node: Node, buttons: tuple[Button, ...]) -> str:
    """Return the category for a node's colour; calls of model functions are a separate category."""
    return "function" if "ƒ" in buttons else operator_category(node.domain, node.op_type)


def _even(length: float) -> float:
    """Round up to an even number of px, so that the middle is a whole pixel."""
    return float(-(-int(length + 0.999) // 2) * 2)
