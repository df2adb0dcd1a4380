from onnx_workbench.viewer.document.selection import Selection


def nodes_of(workspace):
    return list(workspace.model.graph.nodes)


def test_set_add_toggle_clear_keep_the_order_of_selecting(workspace):
    selection = workspace.selection
    a, b, c, _ = nodes_of(workspace)
    selection.set([b, a])
    assert (selection.items, selection.current) == ((b, a), a)
    selection.add([b, c])
    assert (selection.items, selection.current) == ((a, b, c), c)
    selection.toggle(b)
    selection.toggle(b)
    assert selection.items == (a, c, b)
    assert b in selection
    assert len(selection) == 3
    selection.clear()
    assert selection.current is None


def test_others_are_those_that_are_not_selected_in_their_order(workspace):
    a, b, c, d = nodes_of(workspace)
    workspace.selection.set([c, a])
    assert workspace.selection.others_of([d, c, b, a]) == [d, b]


def test_changed_is_emitted_once_per_change_and_not_without_one(qapp, workspace, received):
    selection = Selection()
    changes = received(selection.changed)
    a, b, *_ = nodes_of(workspace)
    selection.set([a, b])
    selection.set([a, b])
    selection.add([])
    assert len(changes) == 1
    selection.set([b, a])
    assert len(changes) == 2


def test_kinds_are_reported_apart(workspace):
    node = nodes_of(workspace)[0]
    workspace.selection.set([node, node.outputs[0], workspace.graph])
    assert workspace.selection.nodes == (node,)
    assert workspace.selection.values == (node.outputs[0],)


def test_hover_is_reported_once_per_object(workspace, received):
    moves = received(workspace.selection.hover_changed)
    node = nodes_of(workspace)[0]
    workspace.selection.set_hover(node)
    workspace.selection.set_hover(node)
    workspace.selection.set_hover(None)
    assert len(moves) == 2


def test_pruning_drops_what_is_gone_and_keeps_the_rest(workspace):
    a, b, *_ = nodes_of(workspace)
    workspace.selection.set([a, b])
    workspace.selection.set_hover(a)
    workspace.selection.prune(lambda item: item is not a)
    assert workspace.selection.items == (b,)
    assert workspace.selection.hover is None
