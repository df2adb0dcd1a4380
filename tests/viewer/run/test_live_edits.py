"""Live: whatever is edited, undone or chosen, in quick succession too, what is shown is what a fresh run gives."""

import contextlib
import random

import numpy as np
import pytest

from onnx_workbench.exec.inputs.sources import Constant, Random
from onnx_workbench.exec.session import Session
from onnx_workbench.model.edits import attributes, functions, initializers, interface, nodes, values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from tests.model import builders
from tests.viewer.run.run_actions import edit, idle, node, opened, value

pytestmark = pytest.mark.long

WORK = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
work (float[N, 4] x, bool flag, float[4] spare) => (float[N, 4] y, float[4] last, float[k, 4] scan)
<float[4] w = {1.0, 2.0, 3.0, 4.0}, float[4] b = {0.5, -0.5, 0.5, 0.5}, int64 n = {3}>
{
    [first] a = Mul (x, w)
    [leaky] r = LeakyRelu <alpha: float = 0.5> (a)
    [third] c = Add (r, b)
    [choose] z = If (flag) <
        then_branch: graph = yes () => (float[N, 4] yes_out) { [inner] q = Mul (c, w) yes_out = Abs (q) },
        else_branch: graph = no () => (float[N, 4] no_out) { no_out = Neg (c) }
    >
    [call] u = local.scale (z, w)
    [again] v = local.scale (u, b)
    [soft] y = Softmax <axis: int = 1> (v)
    [loop] last, scan = Loop (n, flag, b) <
        body: graph = turn (int64 i, bool go, float[4] t) => (bool on, float[4] next, float[4] s)
        { on = Identity (go) [step] next = Add (t, w) s = Relu (next) }
    >
}
<domain: "local", opset_import: ["" : 21]>
scale (p, by) => (o) { [times] t = Mul (p, by) [pass] o = Neg (t) }
"""


@pytest.fixture
def work(window, qtbot, tmp_path):
    """A model with bodies and calls of a function, run in Live."""
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "work.onnx", WORK))
    workspace.runs.inputs.set_source("x", Constant(0.5))
    with qtbot.waitSignal(workspace.results.run_finished):
        workspace.runs.set_live(True)
    settled(qtbot, workspace)
    return workspace


def settled(qtbot, workspace):
    """Wait until what was changed has been run."""
    qtbot.waitUntil(lambda: not workspace.runs.is_waiting_to_run)
    idle(qtbot, workspace)


def test_changing_an_input_type_runs_and_undo_restores(qtbot, work):
    before = work.results.current
    with work.document.edit("Set type") as transaction:
        values.set_type(transaction, value(work, "x"), TensorType(ElementType.FLOAT, Shape((3, 4))))
    assert not work.results.is_current
    settled(qtbot, work)
    assert work.results.value_of(value(work, "y")).shape == (3, 4)
    work.document.undo()
    assert work.results.current is before
    settled(qtbot, work)
    assert work.results.current is before


def test_an_input_that_is_added_has_a_value(qtbot, work):
    with work.document.edit("Add input") as transaction:
        added = interface.add_input(transaction, work.model.graph, "more", TensorType(ElementType.FLOAT, Shape((2,))))
    settled(qtbot, work)
    assert work.results.has(added)


def test_reordered_inputs_get_the_random_values_of_their_place(qtbot, work):
    work.runs.inputs.set_source("x", Random())
    settled(qtbot, work)
    with work.document.edit("Reorder") as transaction:
        interface.reorder_inputs(transaction, work.model.graph, work.model.graph.inputs[::-1])
    settled(qtbot, work)
    assert faults(work) == []


def test_a_new_source_is_run_though_a_renaming_follows(qtbot, work):
    work.runs.inputs.set_source("x", Constant(-2.0))
    with work.document.edit("Rename") as transaction:
        nodes.rename_node(transaction, node(work, "first"), "product")
    settled(qtbot, work)
    np.testing.assert_array_equal(work.results.value_of(value(work, "x")), np.full((1, 4), -2, np.float32))


def test_a_source_chosen_back_during_a_run_keeps_its_values(qtbot, work):
    with qtbot.waitSignal(work.runs_changed, check_params_cb=lambda: work.results.is_running):
        work.runs.inputs.set_source("x", Constant(2.0))
    work.runs.inputs.set_source("x", Constant(0.5))
    settled(qtbot, work)
    assert faults(work) == []


def test_a_model_that_could_not_run_does_once_inputs_are_fixed(window, qtbot, tmp_path):
    text = '<ir_version: 9, opset_import: ["": 17]> g (float[2] x) => (float[n] y) { y = Neg (x) }'
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "small.onnx", text))
    workspace.runs.inputs.set_source("x", Constant([1.0, 2.0, 3.0]))
    workspace.runs.set_live(True)
    settled(qtbot, workspace)
    assert workspace.results.current is None
    with workspace.document.edit("Set type") as transaction:
        values.set_type(transaction, value(workspace, "x"), TensorType(ElementType.FLOAT, Shape((3,))))
    settled(qtbot, workspace)
    np.testing.assert_array_equal(workspace.results.value_of(value(workspace, "y")), [-1, -2, -3])


def test_what_a_limit_was_in_the_way_of_is_run_once_it_is_raised(qtbot, work):
    work.runs.inputs.set_limits(memory=10)
    with work.document.edit("Set alpha") as transaction:
        attributes.set_attribute(transaction, node(work, "leaky"), "alpha", 0.25)
    settled(qtbot, work)
    assert [f.kind for f in work.results.current.result.failures] == ["LimitError"]
    work.runs.inputs.set_limits(memory=0)
    settled(qtbot, work)
    assert faults(work) == []


def test_an_input_that_is_renamed_keeps_its_source(qtbot, work):
    with work.document.edit("Rename") as transaction:
        values.rename_value(transaction, value(work, "x"), "image")
    assert work.runs.inputs.source("image") == Constant(0.5)
    work.runs.inputs.set_source("image", Constant(4.0))
    work.document.undo()
    assert work.runs.inputs.source("x") == Constant(4.0)


def test_a_renamed_input_keeps_its_source_through_history(qtbot, work):
    spare = value(work, "spare")
    with work.document.edit("Rename") as transaction:
        values.rename_value(transaction, spare, "other")
    with work.document.edit("Remove") as transaction:
        interface.remove_inputs(transaction, work.model.graph, [spare])
    work.document.go_to(work.document.root)
    work.runs.inputs.set_source("spare", Constant(4.0))
    with work.changes.together():
        work.document.redo()
        work.document.redo()
    work.document.undo()
    assert work.runs.inputs.source("other") == Constant(4.0)


def test_another_result_of_a_function_is_run_where_it_is_called(qtbot, work):
    body = work.model.functions[0].body
    inner = next(v for v in body.values() if v.name == "t")
    with work.document.edit("Return another") as transaction:
        interface.redirect_output(transaction, body, 0, inner)
    assert not work.results.is_current
    settled(qtbot, work)
    assert faults(work) == []


def test_calls_whose_values_changed_since_the_last_run_are_marked(window, qtbot, work):
    """Nodes inside a function are on no graph that is shown with the call."""
    work.runs.inputs.set_source("x", Constant(-0.5))
    settled(qtbot, work)
    edit(work, "leaky", "alpha", 0.25)
    settled(qtbot, work)
    calls = {node(work, "call"), node(work, "again")}
    assert calls <= set(work.highlights.marks["changed"])
    assert {thing.graph for thing in work.highlights.marks["changed"]} == {work.model.graph}


# -- anything at all -------------------------------------------------------------------------------------------


def faults(workspace):
    """What is shown otherwise than a fresh run of the model as it is gives it."""
    runs, results = workspace.runs, workspace.results
    session = Session(workspace.document.model)
    try:
        fresh = session.run(runs.inputs.recipe().make(), seed=runs.inputs.seed)
    except ModelError:
        return ["shown for a model that cannot be run"] if results.is_current else []
    if not results.is_current:
        return ["not run"]
    ours = results.current.result
    shown, expected = _places(ours, runs.session), _places(fresh, session)
    found = [f"{v.name} is missing" for path, v in expected.keys() - shown.keys() if v.initializer is None]
    for place in shown.keys() & expected.keys():
        value, other = ours.value(shown[place]), fresh.value(expected[place])
        if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
            is_alike = value.dtype == other.dtype and value.shape == other.shape
            is_alike = is_alike and (value.dtype.kind not in "fc" or np.allclose(value, other, equal_nan=True))
            if not is_alike or (value.dtype.kind not in "fc" and not np.array_equal(value, other)):
                found.append(f"{place[1].name} is {value}, not {other}")
    failed = [{f.title for f in result.failures} for result in (ours, fresh)]
    return found if failed[0] == failed[1] else [*found, f"failed: {failed[0]}, not {failed[1]}"]


def _places(result, session):
    """Keys of what a run has, by the calls of functions and the value."""
    object_of, value_of = session.snapshots.nodes.get, session.snapshots.values.get
    bodies = [(path, number) for path, inside in result.bodies.items() for number in inside]
    keys = [*(key for key in result.layout.slots if result.info(key) is not None), *bodies]
    return {(tuple(map(object_of, path)), value_of(number)): (path, number) for path, number in keys}


def any_edit(edit, pick):
    """One of the edits that a user makes while the model runs; many are refused."""
    model = edit.model
    everything = [n for g in model.graphs() for n in g.nodes]
    used = [v for g in model.graphs() for v in g.values() if v.uses]
    weight = pick([v for v in model.graph.initializers if v.name in "wb"])
    small = TensorType(ElementType.FLOAT, Shape((pick((1, 2, "N")), 4)))
    function = pick(model.functions or (None,))
    numbers = pick((1, 2, 3)) * np.arange(4, dtype=np.float32)
    pick((
        lambda: attributes.set_attribute(edit, pick([n for n in everything if n.op_type == "LeakyRelu"]), "alpha", 0.1),
        lambda: initializers.set_tensor(edit, weight, ArrayTensor(numbers)),
        lambda: nodes.insert_on_edge(edit, pick(used), pick(("Abs", "Identity", "Not"))),
        lambda: nodes.delete_and_bridge(edit, [pick(everything)]),
        lambda: nodes.change_operator(edit, pick(everything), pick(("Relu", "Neg", "NoSuch"))),
        lambda: values.connect(edit, pick(everything), 0, pick(used)),
        lambda: values.disconnect(edit, pick(everything), 1),
        lambda: values.set_type(edit, pick(model.graph.inputs), small),
        lambda: interface.reorder_inputs(edit, model.graph, model.graph.inputs[::-1]),
        lambda: interface.add_input(edit, model.graph, "more", small),
        lambda: interface.initializer_to_input(edit, model.graph, weight, keep_default=pick((True, False))),
        lambda: function and interface.redirect_output(edit, function.body, 0, pick(pick(function.body.nodes).outputs)),
        lambda: functions.inline_calls(edit, [n for n in model.graph.nodes if n.domain == "local"][:1]),
    ))()  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_fast_edits_undone_and_redone_equal_a_fresh_run(qtbot, work, seed):
    rng = random.Random(seed)

    def pick(things):
        things = list(things)
        if not things:
            raise ModelError("Nothing of the kind", "")
        return rng.choice(things)

    for _ in range(12):
        for _ in range(rng.randrange(1, 4)):
            what = rng.random()
            with contextlib.suppress(ModelError):
                if what < 0.6:
                    with work.document.edit("Edit") as transaction:
                        any_edit(transaction, pick)
                elif what < 0.9:
                    pick((work.document.undo, work.document.undo, work.document.redo))()
                else:
                    work.runs.inputs.set_source("x", pick((Random(), Constant(1.0), Constant(-1.0))))
            qtbot.wait(rng.choice((0, 5, 150)))  # a run may have begun, or be over
        settled(qtbot, work)
        assert faults(work) == []
