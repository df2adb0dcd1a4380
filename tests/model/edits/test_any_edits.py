"""Any sequence of edits, undo and redo: links hold, and taking everything back gives the model as opened."""

from __future__ import annotations

import ast
import contextlib
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from onnx_workbench.model import edits
from onnx_workbench.model.edits import (
    attributes,
    copy_paste,
    find_replace,
    functions,
    initializers,
    interface,
    nodes,
    properties,
    values,
)
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from tests.model import builders
from tests.model.edits import further_edits
from tests.model.snapshots import assert_known, assert_linked, snapshot

pick = st.integers(0, 1 << 16)
OPERATORS = ("Relu", "Add", "Concat", "Clip", "Split", "If", "Softmax", "Identity", "NoSuch")


class AnyEdits(RuleBasedStateMachine):
    """A user at work: every edit may be refused, none may break the model's links or its history."""

    @initialize(text=st.sampled_from([builders.CHAIN, builders.BRANCHES]), trained=st.booleans())
    def open(self, text, trained):
        self.as_opened = partial(builders.document, text, trained=trained)
        self.document = self.as_opened()
        self.states = {0: snapshot(self.document.model)}
        self.fragment = None
        self.opened()

    def opened(self):
        """For machines that watch the same user."""

    def graph(self, number):
        graphs = list(self.document.model.graphs())
        return graphs[number % len(graphs)]

    def node(self, number):
        found = [n for g in self.document.model.graphs() for n in g.nodes]
        return found[number % len(found)] if found else None

    def value(self, number):
        found = [v for g in self.document.model.graphs() for v in g.values()]
        return found[number % len(found)] if found else None

    def edit(self, change):
        """Do it as one entry; refusals are as good as changes."""
        before = snapshot(self.document.model)
        try:
            builders.one_edit(self.document, change)
        except ModelError:
            assert snapshot(self.document.model) == before

    @rule(where=pick, op_type=st.sampled_from(OPERATORS), inputs=st.lists(pick, max_size=3))
    def add(self, where, op_type, inputs):
        graph = self.graph(where)
        given = [v for v in (self.value(i) for i in inputs) if v is not None]
        visible = [v for v in given if values.is_visible(v, graph)]
        self.edit(lambda edit: nodes.add_node(edit, graph, op_type, visible))

    @rule(which=st.lists(pick, min_size=1, max_size=3), bridge=st.booleans())
    def delete(self, which, bridge):
        chosen = _in_one_graph([self.node(i) for i in which])
        if chosen:
            self.edit(lambda edit: (nodes.delete_and_bridge if bridge else nodes.delete)(edit, chosen))

    @rule(which=st.lists(pick, min_size=1, max_size=3))
    def duplicate(self, which):
        chosen = _in_one_graph([self.node(i) for i in which])
        if chosen and sum(len(list(g.nodes)) for g in self.document.model.graphs()) < 60:
            self.edit(lambda edit: nodes.duplicate(edit, chosen))

    @rule(which=pick, index=st.integers(0, 3), what=pick)
    def connect(self, which, index, what):
        node, value = self.node(which), self.value(what)
        if node and value:
            self.edit(lambda edit: values.connect(edit, node, index, value))

    @rule(which=pick, index=pick)
    def disconnect(self, which, index):
        node = self.node(which)
        if node and node.inputs:
            self.edit(lambda edit: values.disconnect(edit, node, index % len(node.inputs)))

    @rule(which=pick, name=st.sampled_from(["", "a", "x", "fresh", "yes_out", "<b>"]))
    def rename(self, which, name):
        value, node = self.value(which), self.node(which)
        if value:
            self.edit(lambda edit: values.rename_value(edit, value, name))
        if node:
            self.edit(lambda edit: nodes.rename_node(edit, node, name))

    @rule(
        which=pick, name=st.sampled_from(["axis", "alpha", "then_branch"]), value=st.sampled_from([1, 0.5, "s", [1, 2]])
    )
    def set_attribute(self, which, name, value):
        node = self.node(which)
        if node:
            self.edit(lambda edit: attributes.set_attribute(edit, node, name, value))

    @rule(which=pick)
    def remove_attribute(self, which):
        node = self.node(which)
        if node and node.attributes:
            self.edit(lambda edit: attributes.remove_attribute(edit, node, next(iter(node.attributes))))

    @rule(which=pick, op_type=st.sampled_from(OPERATORS))
    def change_operator(self, which, op_type):
        node = self.node(which)
        if node:
            self.edit(lambda edit: nodes.change_operator(edit, node, op_type))

    @rule(what=pick)
    def insert_on_edge(self, what):
        value = self.value(what)
        if value and value.uses and value.graph is not None:
            self.edit(lambda edit: nodes.insert_on_edge(edit, value, "Identity"))

    @rule(what=pick, where=pick)
    def change_interface(self, what, where):
        value, graph = self.value(what), self.graph(where)
        if value:
            self.edit(lambda edit: interface.add_output(edit, graph, value))
            self.edit(lambda edit: interface.remove_input(edit, graph, value))
            self.edit(lambda edit: values.set_type(edit, value, TensorType(ElementType.FLOAT, Shape((1, "N")))))
        self.edit(lambda edit: interface.add_input(edit, graph))

    @rule(what=pick)
    def move_constants(self, what):
        value, node = self.value(what), self.node(what)
        if value and value.initializer is not None:
            self.edit(lambda edit: initializers.initializer_to_constant(edit, value))
        if node and node.op_type == "Constant":
            self.edit(lambda edit: initializers.constant_to_initializer(edit, node))

    @rule(which=st.lists(pick, min_size=1, max_size=3), name=st.sampled_from(["f", "g", "h"]))
    def extract_function(self, which, name):
        chosen = _in_one_graph([self.node(i) for i in which])
        if chosen:
            self.edit(lambda edit: functions.extract_function(edit, chosen, name))

    @rule()
    def inline(self):
        self.edit(functions.inline_all)

    @rule(which=st.lists(pick, min_size=1, max_size=3))
    def copy(self, which):
        chosen = _in_one_graph([self.node(i) for i in which])
        if chosen:
            self.fragment = copy_paste.copy(chosen)

    @precondition(lambda self: self.fragment is not None)
    @rule(where=pick)
    def paste(self, where):
        if sum(len(list(g.nodes)) for g in self.document.model.graphs()) < 60:
            self.edit(lambda edit: copy_paste.paste(edit, self.graph(where), self.fragment))

    @rule(text=st.sampled_from(["a", "o"]))
    def replace_names(self, text):
        with contextlib.suppress(ModelError):
            found = find_replace.find_replacements(
                self.document.model.graphs(), text, "e", ["value names", "node names"]
            )
            self.edit(lambda edit: find_replace.replace_all(edit, filter(None, found)))

    @rule(version=st.integers(1, 30))
    def change_model(self, version):
        self.edit(lambda edit: properties.set_opset(edit, edit.model, "", version))
        self.edit(lambda edit: properties.set_metadata(edit, edit.model, "key", str(version)))

    @rule(
        which=st.sampled_from(sorted(further_edits.EDITS)),
        a=pick,
        b=pick,
        text=st.sampled_from(["", "a", "fresh", "x", "7", "local"]),
    )
    def edit_further(self, which, a, b, text):
        if sum(len(list(g.nodes)) for g in self.document.model.graphs()) < 60:
            self.edit(lambda edit: further_edits.EDITS[which](self, edit, a, b, text))

    @rule(text=st.text(max_size=3))
    def type_a_text(self, text):
        with self.document.edit("Type", merge="doc") as edit:
            edit.do(SetField(self.document.model, "doc_string", text))

    @rule(times=st.integers(1, 5))
    def undo(self, times):
        for _ in range(times):
            self.document.undo()

    @rule(times=st.integers(1, 5))
    def redo(self, times):
        for _ in range(times):
            self.document.redo()

    @rule(number=pick)
    def jump(self, number):
        entries = list(self.document.entries())
        self.document.go_to(entries[number % len(entries)])

    @invariant()
    def linked(self):
        if hasattr(self, "document"):
            assert_linked(self.document.model)
            assert_known(self.document.model)

    @invariant()
    def every_state_is_always_the_same(self):
        """Going to a state of the history, by whatever way, gives the same model each time."""
        if hasattr(self, "document"):
            now = snapshot(self.document.model)
            assert self.states.setdefault(self.document.current.id, now) == now

    def teardown(self):
        if hasattr(self, "document"):
            self.document.go_to(self.document.root)
            assert snapshot(self.document.model) == self.states[0]


def _in_one_graph(chosen):
    kept = {}
    for node in chosen:
        if node is not None and node.graph is not None:
            kept.setdefault(node.graph, {})[node] = None
    return list(next(iter(kept.values()))) if kept else []


TestAnyEdits = AnyEdits.TestCase
TestAnyEdits = pytest.mark.long(TestAnyEdits)
TestAnyEdits.settings = settings(stateful_step_count=30)


def test_every_edit_there_is_takes_part():
    """By its name in the rules or the table of further edits; what another one does need not."""
    used = set()
    for path in (Path(__file__), Path(further_edits.__file__)):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names_used = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name))
        used |= {f"{name.value.id}.{name.attr}" for name in names_used}
    there = set()
    for path in Path(edits.__path__[0]).glob("*.py"):
        for made in ast.parse(path.read_text(encoding="utf-8")).body:
            public = isinstance(made, ast.FunctionDef) and not made.name.startswith("_")
            if public and made.args.args and made.args.args[0].arg == "edit":
                there.add(f"{path.stem}.{made.name}")
    assert len(there) > 80
    assert there - used == set(further_edits.ELSEWHERE) - used
    assert set(further_edits.ELSEWHERE) <= there
