"""Numbers or texts per node from elsewhere: tables, profiles of other runtimes, node data of other viewers.

Nothing of them enters a model; `match` finds the nodes that their names mean. `node_data_files` reads them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Model, Node
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.formatting import display, number_text, plural

#: Numbers of nodes, or texts of nodes: never both.
NodeValues = Mapping[Node, float] | Mapping[Node, str]

_LISTED = 3  # names in a message
_FEW = 8  # texts that are counted in a summary
_TEXT = 200
_DIGITS = 5  # of a number in a box
#: What runtimes add to the name of a node that they fused, copied, or whose layout they changed.
_ADDED = re.compile(
    r"^fused |_nchwc$|_nhwc$|_token_\d+$|/duplicated$|/\w+(?:Fusion|_fusion)/?$"  # ONNX Runtime
    r"|^Reformatting CopyNode for (?:Input|Output) Tensor \d+ to |_clone_\d+$"  # TensorRT
)
#: What divides the names of the layers that TensorRT fused: ``conv + relu``, ``PWN(a, b)``, ``{ForeignNode[a...b]}``.
_DIVIDED = re.compile(r" \+ |\.\.\.|[(){}\[\], ]+")
_COPY = " copy"  # TensorRT's name of what it does for an input of a Concat: ``concat_value copy``


@dataclass(frozen=True)
class NodeData:
    """Numbers by name, or texts by name where no entry is a number; the names are those of nodes or values.

    `title` is the heading of their column and `heading` the name in its line, which is a node if the model has one of
    that name. `others` are entries without a finite number. Of several numbers for a name the last one is used;
    `repeated` are these names. `of_fused`: a name may stand for several nodes, as in a profile; the last one, which
    writes the result, has the number. `more` are further columns of the same file.
    """

    numbers: Mapping[str, float] = field(default_factory=dict)
    title: str = ""
    others: Sequence[tuple[str, str]] = ()
    repeated: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    of_fused: bool = False
    heading: str | None = None
    more: Sequence[NodeData] = ()

    @property
    def named(self) -> Mapping[str, float] | Mapping[str, str]:
        """The numbers or texts by name."""
        return self.numbers or self.texts


@dataclass(frozen=True, eq=False)
class Matched:
    """Numbers or texts of the nodes of a model, and the names that no node or value of it has.

    `alone` are, in a difference, the nodes that only one of the two has data for. `more` are further columns.
    """

    values: NodeValues
    title: str
    names: Sequence[str]
    unknown: Sequence[str]
    alone: Sequence[Node] = ()
    more: Sequence[Matched] = ()

    @property
    def columns(self) -> Sequence[Matched]:
        """This column and the further ones."""
        return (self, *self.more)

    def column(self, title: str) -> Matched:
        """Return the column of a title with all others behind it; ModelError if there is none."""
        chosen = next((one for one in self.columns if one.title == title), None)
        if chosen is None:
            titles = ", ".join(display(one.title, 60) for one in self.columns)
            raise ModelError(f"The node data has no column {display(title, 60)}", f"Columns: {titles}.")
        return replace(chosen, more=[replace(one, more=()) for one in self.columns if one is not chosen])

    def summary(self) -> str:
        """Say how many names matched, and which did not."""
        count = len(self.names)
        text = f"{count - len(self.unknown):,} of {plural(count, 'name')} match"
        if self.unknown:
            text += f"; not in the model: {listed(self.unknown)}"
        if self.alone:
            text += f"; {plural(len(self.alone), 'node')} in only one of the two"
        return text

    def of(self, nodes: Iterable[Node]) -> tuple[str, str] | None:
        """Return title and text for some nodes: the number or text of one, the sum or the counts of several."""
        values = [self.values[node] for node in nodes if node in self.values]
        if not values:
            return None
        numbers = [value for value in values if not isinstance(value, str)]
        title = display(self.title, _TEXT)
        if numbers:
            return title if len(numbers) == 1 else f"{title}, sum of {len(numbers):,}", number_text(
                sum(numbers), _DIGITS
            )
        texts = Counter(value for value in values if isinstance(value, str)).most_common(_FEW)
        shown = texts[0][0] if len(values) == 1 else ", ".join(f"{text}: {count:,}" for text, count in texts)
        return title, display(shown, _TEXT)


def node_data(given: Mapping[str, float | str]) -> NodeData:
    """Return data from numbers or texts by name; ModelError if there is neither."""
    read = data_of([(name, value) for name, value in given.items()], has_heading=False)
    if not read.named:
        raise ModelError("There is no data per node", f"Expected names with numbers or strings, not {given!r:.200}")
    return read


def data_of(
    pairs: Sequence[tuple[Any, Any]], *, has_heading: bool, decimal_comma: bool = False, title: str = ""
) -> NodeData:
    """Return the data of names with numbers or texts. `has_heading`: the first pair may be their heading."""
    numbers: dict[str, float] = {}
    others: list[tuple[str, str]] = []
    repeated: dict[str, None] = {}
    heading: str | None = None
    for index, (name, value) in enumerate(pairs):
        number = number_of(value, decimal_comma=decimal_comma)
        if number is not None and isfinite(number):
            if numbers.get(str(name), number) != number:
                repeated[str(name)] = None
            numbers[str(name)] = number
        elif has_heading and not index and number is None:
            heading, title = str(name), str(value).strip()
        else:
            others.append((str(name), str(value)))
    if numbers:
        return NodeData(numbers, title, others, list(repeated), heading=heading)
    rows = pairs if heading is None else pairs[1:]
    texts = {str(name): value for name, value in rows if isinstance(value, str) and value and number_of(value) is None}
    return NodeData(title=title, texts=texts, heading=heading)


def number_of(value: Any, *, decimal_comma: bool = False) -> float | None:
    """Return a number, also of a text; None if it is none."""
    if isinstance(value, str):
        value = "" if "_" in value else value.replace(",", ".") if decimal_comma else value
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def difference(new: Matched, old: Matched) -> Matched:
    """Return numbers of `new` minus those of `old`, or both texts where they differ, of nodes that both have.

    ModelError if there are none.
    """
    values: dict[Node, Any] = {}
    for node, value in new.values.items():
        before: float | str | None = old.values.get(node)
        if isinstance(value, str) and isinstance(before, str):
            values[node] = value if value == before else f"{before} → {value}"
        elif isinstance(value, float) and isinstance(before, float) and isfinite(value - before):
            values[node] = value - before
    if not values:
        raise ModelError("The two node data files have no data of the same kind for the same node")
    pairs = [(one, other) for one in new.more for other in old.more if one.title == other.title]
    return Matched(
        values,
        f"{new.title}, difference",
        tuple(dict.fromkeys((*new.names, *old.names))),
        tuple(dict.fromkeys((*new.unknown, *old.unknown))),
        tuple(node for node in {**new.values, **old.values} if node not in values),
        [difference(one, other) for one, other in pairs if one.values.keys() & other.values.keys()],
    )


def match(model: Model, data: NodeData, progress: Progress = SILENT, title: str = "Data") -> Matched:
    """Return the data by node: matched by a node's name, else by that of an output. Reads nodes alone.

    `title` is that of data without a heading.
    """
    by_name: dict[str, Node] = {}
    columns = (data, *data.more)
    by_column: list[dict[Node, Any]] = [{} for _ in columns]
    named: list[Mapping[str, Any]] = [column.named for column in columns]
    for graph in model.graphs():
        for index, node in enumerate(graph.nodes):
            progress.check()
            names = [name for name in (node.name, *(v.name for v in node.outputs if v is not None)) if name]
            if data.of_fused and not node.name:
                names.append(f"{node.op_type}_{index}")  # ONNX Runtime's name for it
            for values, column in zip(by_column, named, strict=True):
                own = next((name for name in names if name in column), None)
                if own is not None:
                    values[node] = column[own]
            for name in names:
                by_name.setdefault(name, node)
    both = zip(columns, by_column, strict=True)
    first, *more = [_matched(column, values, by_name, title, progress) for column, values in both]
    return Matched(first.values, first.title, first.names, first.unknown, more=[one for one in more if one.values])


def _matched(
    data: NodeData, values: dict[Node, Any], known: Mapping[str, Node], title: str, progress: Progress
) -> Matched:
    """Return one column with what stands for several nodes, and with its first line where that is no heading."""
    named: Mapping[str, Any] = data.named
    names, unknown = list(named), [name for name in named if name not in known]
    if data.heading is not None and data.heading in known:
        names.insert(0, data.heading)
        if data.texts:
            values.setdefault(known[data.heading], data.title)
    elif data.title:
        title = data.title
    if data.of_fused:
        writers = {name: last_of_fused(name, known) for name in progress.paced(unknown)}
        for name, writer in writers.items():
            if writer is not None and isinstance(named[name], str):
                values.setdefault(writer, named[name])
            elif writer is not None:
                values[writer] = values.get(writer, 0.0) + named[name]
        unknown = [name for name in unknown if writers[name] is None]
    return Matched(values, title, names, unknown)


def matched(model: Model, data: NodeData, source: str, progress: Progress = SILENT, title: str = "Data") -> Matched:
    """Return the data by node, as `match`; ModelError if no name is one of the model's."""
    found = match(model, data, progress, title)
    if not found.values:
        detail = f"0 of {plural(len(found.names), 'name')} match a node or value, such as {listed(found.unknown)}"
        raise ModelError(f"{source} has no data of this model", detail)
    return found


def listed(names: Sequence[str]) -> str:
    """Return the first of some names."""
    shown = ", ".join(display(name, 60) for name in names[:_LISTED])
    return f"{shown}, …" if len(names) > _LISTED else shown


def last_of_fused(name: str, known: Mapping[str, Node]) -> Node | None:
    """Return the node that writes the result of fused ones, by the name that a runtime gave them."""
    plain, before = name, ""
    while plain != before and plain not in known:
        before, plain = plain, _ADDED.sub("", plain)
    if plain in known:
        return known[plain]
    if plain.endswith(_COPY):
        ends = (match.start() for match in re.finditer("_", plain))
        return next((known[plain[:end]] for end in ends if plain[:end] in known), None)
    parts = (_ADDED.sub("", part) for part in reversed(_DIVIDED.split(plain)))
    return next((known[part] for part in parts if part in known), None)
