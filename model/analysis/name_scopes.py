"""Groups of nodes by the scopes they were exported from, so that a transformer is shown as blocks.

A scope comes from the metadata that exporters write (``namespace``, ``pkg.torch.onnx.name_scopes``), else from slashes
in the node's name, else from dots. Scopes of a single node, or of only one other scope, are collapsed.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.progress import SILENT, Progress

#: Names may claim any nesting; deeper parts belong to the last scope.
DEEPEST = 24

#: Boxes of a level that are seen at a glance: of more, those that repeat are drawn as blocks.
AT_A_GLANCE = 60

_SAMPLE = 200
_LONGEST_NAME = 4000
_NAME_SCOPES = "pkg.torch.onnx.name_scopes"
_NAMESPACE = "namespace"
_NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"  # torch.export's scope of nodes that are in none

Path = tuple[str, ...]


@dataclass(slots=True, eq=False)
class Scope:
    """A group. `path` identifies it within its graph, `name` is its label inside its parent scope.

    `nodes` are its direct nodes; `count` includes those of inner scopes. Nodes and inner scopes are in graph order; a
    scope is at the position of its first node that is no Constant. The inner scopes of a stack are equal.
    """

    path: Path
    name: str
    parent: Scope | None = None
    children: list[Scope] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    count: int = 0
    is_stack: bool = False

    def all_nodes(self) -> Iterator[Node]:
        """Return all nodes, those of inner scopes included."""
        for scope in self.walk():
            yield from scope.nodes

    def walk(self) -> Iterator[Scope]:
        """Yield this scope, then all inside it."""
        pending = [self]
        while pending:
            scope = pending.pop()
            yield scope
            pending.extend(reversed(scope.children))

    def operators(self) -> list[tuple[str, int]]:
        """Count its operator types, most frequent first."""
        return Counter(node.op_type for node in self.all_nodes()).most_common()

    def __repr__(self) -> str:
        return f"<Scope {'/'.join(self.path)!r} of {self.count}>"


@dataclass(slots=True, eq=False)
class ScopeTree:
    """The scopes of one graph. `of` maps nodes to their innermost scope; `root` is the graph.

    `left_out` are scopes that names say but that cannot be drawn as boxes: a path leaves them and comes back.
    `prefix` is the path of the removed scopes around everything.
    """

    root: Scope
    of: dict[Node, Scope]
    left_out: tuple[Path, ...] = ()
    prefix: Path = ()

    def path_of(self, scope: Scope) -> Path:
        """Return the path that names give the direct nodes of a scope."""
        return self.prefix if scope is self.root else scope.path

    def find(self, path: Path) -> Scope | None:
        """Return the scope with a path, or None."""
        return next((scope for scope in self.root.walk() if scope.path == path and scope is not self.root), None)


def is_constant(node: Node) -> bool:
    """Return whether a node is a plain Constant, which has no place of its own in a graph."""
    return node.op_type == "Constant" and not node.domain and not any(node.inputs)


def known_stacks(tree: ScopeTree) -> dict[Path, Path]:
    """Return the stack of each scope in one, for `stack_repeats`."""
    return {layer.path: stack.path for stack in tree.root.walk() if stack.is_stack for layer in stack.children}


def scope_paths(graph: Graph, progress: Progress = SILENT) -> dict[Node, Path]:
    """Return the scope path of each node of a graph, in order. About 1 µs a node; reads no file."""
    with_metadata = _has_metadata(graph)
    return {node: scope_path(node, with_metadata=with_metadata) for node in progress.paced(graph.nodes)}


def tree_of(graph: Graph, paths: Mapping[Node, Path], progress: Progress = SILENT) -> ScopeTree:
    """Build scopes from the path of each node of a graph.

    A scope around everything but Constants is removed: it tells nothing.
    """
    root = Scope((), "")
    scopes: dict[Path, Scope] = {(): root}
    for node in progress.paced(graph.nodes):
        path = paths[node]
        scope = scopes.get(path)
        if scope is None:
            scope = _make(path, scopes)
        scope.nodes.append(node)
    _count(root)
    progress.check()
    longer = _fold(root, progress)
    prefix: Path = ()
    while _is_one_scope(root):
        only = root.children[0]
        prefix = only.path
        root.children = only.children
        root.nodes += only.nodes
        longer.add(root)
        for child in root.children:
            child.parent = root
    _sort(root, longer, graph, progress)
    of: dict[Node, Scope] = {}
    for scope in progress.paced(root.walk()):
        if scope is not root:
            of.update(dict.fromkeys(scope.nodes, scope))
    return ScopeTree(root, of, prefix=prefix)


def _is_one_scope(root: Scope) -> bool:
    return len(root.children) == 1 and all(node.op_type == "Constant" for node in root.nodes)


def scope_path(node: Node, *, with_metadata: bool = True) -> Path:
    """Return the scope path of a node, outermost first; empty when it has none."""
    if with_metadata:
        metadata = node.metadata
        path = _from_namespace(metadata.get(_NAMESPACE, "")) or _from_name_scopes(metadata.get(_NAME_SCOPES, ""))
        if path:
            return path[:DEEPEST]
    return _from_name(node.name, node.op_type)


def _has_metadata(graph: Graph) -> bool:
    """Return whether a sample of the nodes has scope metadata: decoding it for all would be expensive."""
    return any(_NAMESPACE in node.metadata or _NAME_SCOPES in node.metadata for node in islice(graph.nodes, _SAMPLE))


def _from_namespace(text: str) -> Path:
    """``: Model/encoder: Encoder/conv: Conv2d/conv2d: aten.conv2d`` gives ``encoder, conv``."""
    if not text or len(text) > _LONGEST_NAME:
        return ()
    return _nested([part.partition(":")[0].strip() for part in text.split("/")][:-1])


def _from_name_scopes(text: str) -> Path:
    """``['', 'encoder', 'encoder.layer', 'conv2d']``: each entry but the last is the full name of a module."""
    if not text.startswith("[") or len(text) > _LONGEST_NAME:
        return ()
    try:
        entries = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        return ()
    return _nested(entries[:-1])


def _nested(names: list[str]) -> Path:
    """Return scopes from module names, where an inner name may repeat the outer one: ``m, m.encoder``."""
    path: list[str] = []
    outer = ""
    for name in names:
        if name and name not in (outer, _NO_MODULE):
            path.append(name.removeprefix(f"{outer}.") if outer else name)
            outer = name
    return tuple(path)


def _from_name(name: str, op_type: str) -> Path:
    name = name[:_LONGEST_NAME]
    if ";" in name:  # TensorFlow's name of a node made of several: only what they share contains it
        return common_path([_from_name(part, op_type) for part in name.split(";")])
    if "/" in name:
        return tuple(part for part in name.split("/")[:-1] if part and part != _NO_MODULE)[:DEEPEST]
    if "." not in name:
        return ()
    kind, _, number = name.rpartition(".")
    if number.isdecimal() and kind.rpartition(".")[2] == op_type:
        name = kind  # a number: "Conv.3" is not nested
    path: list[str] = []
    for part in name.split(".")[:-1]:
        if path and part.isdecimal():  # "layer.0" is one scope, not a layer that contains a zero
            path[-1] = f"{path[-1]}.{part}"
        elif part:
            path.append(part)
    return tuple(path[:DEEPEST])


def common_path(paths: Sequence[Path]) -> Path:
    """Return the innermost scope around all paths."""
    if not paths:
        return ()
    low, high = min(paths), max(paths)
    shared = next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:shared]


def _make(path: Path, scopes: dict[Path, Scope]) -> Scope:
    for length in range(1, len(path) + 1):
        part = path[:length]
        if part not in scopes:
            parent = scopes[part[:-1]]
            scope = Scope(part, part[-1], parent)
            parent.children.append(scope)
            scopes[part] = scope
    return scopes[path]


def _count(root: Scope) -> None:
    for scope in reversed(list(root.walk())):
        scope.count = len(scope.nodes) + sum(child.count for child in scope.children)


def _fold(root: Scope, progress: Progress) -> set[Scope]:
    """Collapse uninformative scopes: of one node, or around exactly one other scope.

    Returns the scopes that got direct nodes appended by it.
    """
    longer: set[Scope] = set()
    for scope in progress.paced(reversed(list(root.walk()))):
        kept: list[Scope] = []
        for child in scope.children:
            if child.count < 2:
                scope.nodes.extend(child.all_nodes())
                longer.add(scope)
                continue
            if len(child.children) == 1 and not child.nodes:
                inner = child.children[0]
                inner.name = f"{child.name}/{inner.name}"
                child = inner
            child.parent = scope
            kept.append(child)
        scope.children = kept
    return longer


def _sort(root: Scope, longer: set[Scope], graph: Graph, progress: Progress) -> None:
    """Sort the appended nodes into graph order, and scopes by their first nodes.

    Some exporters write all Constants before the nodes that read them: these say where a scope is.
    """
    firsts: dict[Scope, int] = {}
    for scope in progress.paced(reversed(list(root.walk()))):  # inner scopes first
        if scope in longer:
            scope.nodes = sorted(progress.paced(scope.nodes), key=graph.nodes.place)
        scope.children.sort(key=firsts.__getitem__)
        if scope is not root:
            first = next((node for node in scope.nodes if node.op_type != "Constant"), None)
            if first is None and scope.children:
                firsts[scope] = firsts[scope.children[0]]
            else:
                firsts[scope] = graph.nodes.place(first or scope.nodes[0])
