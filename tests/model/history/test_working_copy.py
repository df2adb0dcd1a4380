import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.model.checks import check_model
from onnx_workbench.model.edits import (
    attributes,
    copy_paste,
    extract,
    functions,
    initializers,
    interface,
    nodes,
    properties,
    values,
)
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.progress import Progress
from tests.examples import examples
from tests.model import builders
from tests.model.snapshots import assert_linked, snapshot

pick = st.integers(0, 1 << 10)
CHANGES = [
    lambda edit, n, v: nodes.duplicate(edit, [n]),
    lambda edit, n, v: nodes.delete(edit, [n]),
    lambda edit, n, v: nodes.delete_and_bridge(edit, [n]),
    lambda edit, n, v: nodes.insert_on_edge(edit, v, "Identity"),
    lambda edit, n, v: nodes.change_operator(edit, n, "Concat"),
    lambda edit, n, v: values.connect(edit, n, 0, v),
    lambda edit, n, v: values.connect(edit, n, 2, v),
    lambda edit, n, v: values.disconnect(edit, n, 0),
    lambda edit, n, v: values.rename_value(edit, v, v.name + "_new"),
    lambda edit, n, v: attributes.set_attribute(edit, n, "extra", 3),
    lambda edit, n, v: functions.extract_function(edit, [n], f"f{len(edit.model.functions)}"),
    lambda edit, n, v: functions.inline_all(edit),
    lambda edit, n, v: initializers.initializer_to_constant(edit, v),
    lambda edit, n, v: interface.add_output(edit, v.graph, v),
    lambda edit, n, v: copy_paste.paste(edit, edit.model.graph, copy_paste.copy([n])),
    lambda edit, n, v: properties.set_metadata(edit, edit.model, "k", "v"),
]
change = st.tuples(st.sampled_from(range(len(CHANGES))), pick, pick)


def test_a_copy_is_equal_and_shares_no_structure():
    document = builders.document(builders.BRANCHES)
    copy_of_model = WorkingCopy(document.model)
    assert snapshot(copy_of_model.document.model) == snapshot(document.model)
    assert_linked(copy_of_model.document.model)
    ours = {n for g in document.model.graphs() for n in g.nodes}
    assert not ours & {n for g in copy_of_model.document.model.graphs() for n in g.nodes}


@settings(max_examples=examples(150))
@given(
    text=st.sampled_from([builders.CHAIN, builders.BRANCHES]),
    changes=st.lists(change, max_size=8),
)
def test_what_was_tried_on_a_copy_happens_to_the_real_model(text, changes):
    document = builders.document(text)
    before = snapshot(document.model)
    copy_of_model = WorkingCopy(document.model)
    try_on_copy(copy_of_model, changes)
    after = snapshot(copy_of_model.document.model)
    assert snapshot(document.model) == before
    steps = copy_of_model.steps()
    copy_of_model.close()  # the steps need nothing of it
    assert snapshot(document.model) == before
    assert_linked(document.model)  # steps that are never made leave nothing behind
    with document.edit("All of it") as edit:
        edit.repeat(steps)
    assert snapshot(document.model) == after
    assert_linked(document.model)
    document.undo()
    assert snapshot(document.model) == before
    assert_linked(document.model)


def try_on_copy(copy_of_model, changes):
    """Some changes of a copy, each an entry of its own; refusals are as good as changes."""
    model = copy_of_model.document.model
    for number, which, what in changes:
        found = [n for g in model.graphs() for n in g.nodes]
        present = [v for g in model.graphs() for v in g.values()]
        if not found:
            break
        try:
            with copy_of_model.document.edit("Edit") as edit:
                CHANGES[number](edit, found[which % len(found)], present[what % len(present)])
        except ModelError:
            continue


def test_a_real_model(real_models):
    document = Document(load(real_models / "bert_mini_functions" / "model.onnx"))
    copy_of_model = WorkingCopy(document.model)
    builders.one_edit(copy_of_model.document, functions.inline_all)
    steps = copy_of_model.steps()
    with document.edit("Inline") as edit:
        edit.repeat(steps)
    assert document.model.functions == ()
    assert_linked(document.model)
    assert [p for p in check_model(document.model) if p.severity == "error"] == []


@pytest.mark.parametrize("text", [builders.CHAIN, builders.BRANCHES])
def test_merging_can_be_tried_on_a_copy(text):
    model = builders.model(text)
    types = infer(model)
    cuts = extract.cut_in_two(model.graph, [next(iter(model.graph.nodes)).outputs[0]])
    first, second = (extract.cut_out(model, cut, types.type_of) for cut in cuts)
    document = Document(first)
    before = snapshot(first)
    copy_of_model = WorkingCopy(first)
    with copy_of_model.document.edit("Merge") as edit:
        copy_paste.merge(edit, copy_of_model.copy_of(first.graph), second, keep_outputs=False)
    after = snapshot(copy_of_model.document.model)
    with document.edit("Merge") as edit:
        edit.repeat(copy_of_model.steps())
    assert_linked(first)
    assert snapshot(first) == after
    document.undo()
    assert snapshot(first) == before


def test_a_copy_has_names_of_its_own_for_what_nothing_defines():
    """Nodes of the copy were among the uses of the real model's, which a body takes from where it is no more."""
    document = builders.document(builders.BRANCHES)
    builders.one_edit(document, nodes.delete, [builders.node(document, "double")])
    copy_of_model = WorkingCopy(document.model)
    assert_linked(document.model)
    assert_linked(copy_of_model.document.model)
    assert snapshot(copy_of_model.document.model) == snapshot(document.model)
    inner = builders.node(copy_of_model.document, "inner")
    assert inner.inputs[0].graph is copy_of_model.document.model.graph
    builders.one_edit(copy_of_model.document, values.rename_value, inner.inputs[0], "gone")
    with document.edit("Rename") as edit:
        edit.repeat(copy_of_model.steps())
    assert builders.node(document, "inner").inputs[0].name == "gone"
    assert_linked(document.model)


def test_a_long_chain_is_looked_through_with_breaths(monkeypatch):
    """A window waits from one check to the next."""
    steps = " ".join(f"v{number + 1} = Neg(v{number})" for number in range(1_000))
    model = builders.model(f"""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[4] v0) => (float[4] v1000) {{ {steps} }}
    """)
    looks, is_defined = [0], Value.is_defined.fget

    class Breaths(Progress):
        def check(self):
            looks.append(0)

    def look(value):
        looks[-1] += 1
        return is_defined(value)

    monkeypatch.setattr(Value, "is_defined", property(look))
    WorkingCopy(model, Breaths())
    assert sum(looks) >= 1_000
    assert max(looks) <= 300
