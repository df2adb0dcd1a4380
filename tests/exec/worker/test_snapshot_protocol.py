"""Models sent as differences: what arrives is what was sent, and what is known is not sent again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.engine.snapshot import SnapshotCache
from onnx_workbench.exec.worker.shared_memory import SharedMemoryExchange
from onnx_workbench.exec.worker.snapshot_protocol import SnapshotReceiver, SnapshotSender
from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.edits.nodes import change_operator, delete_and_bridge, duplicate
from onnx_workbench.model.edits.values import set_type
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from tests.model import builders

NESTED = builders.BRANCHES.replace("{ no_out = Neg (x) }", "{ [deep] no_out = LeakyRelu <alpha: float = 0.5> (x) }")


def long_chain(count: int) -> str:
    return f"""
    chain (float[4] v0) => (float[4] v{count})
    {{ {" ".join(f"[n{i}] v{i + 1} = LeakyRelu <alpha: float = 0.5> (v{i})" for i in range(count))} }}
    """


@pytest.fixture
def exchange() -> Iterator[SharedMemoryExchange]:
    made = SharedMemoryExchange.create()
    yield made
    made.remove()


def plain(thing: Any) -> Any:
    """A snapshot as tuples that compare by content; names and tensors are sent beside it."""
    if isinstance(thing, tuple):
        return tuple(map(plain, thing))
    if isinstance(thing, dict):
        return {key: plain(value) for key, value in thing.items()}
    if type(thing).__name__.endswith("Snapshot"):
        return tuple(plain(getattr(thing, f.name)) for f in fields(thing) if f.name not in ("names", "tensors"))
    return thing


def test_what_arrives_is_what_was_sent_before_and_after_each_edit(exchange):
    document = builders.document(NESTED)
    snapshots, sender, receiver = SnapshotCache(document.model), SnapshotSender(exchange), SnapshotReceiver(exchange)

    def arrives() -> None:
        sent = snapshots.take()
        got = receiver.model(sender.model(sent))
        assert plain(got) == plain(sent)
        assert {number: got.names[number] for number in sent.names} == dict(sent.names)
        assert set(got.tensors) == set(sent.tensors)

    deep, inner, double, choose = (builders.node(document, name) for name in ("deep", "inner", "double", "choose"))
    changes: list[Callable[[Transaction], object]] = [
        lambda edit: set_attribute(edit, deep, "alpha", 0.25),
        lambda edit: change_operator(edit, inner, "Sub"),
        lambda edit: duplicate(edit, [double]),
        lambda edit: duplicate(edit, [choose]),
        lambda edit: delete_and_bridge(edit, [double]),
        lambda edit: set_type(edit, document.model.graph.inputs[0], TensorType(ElementType.FLOAT, Shape((7,)))),
    ]

    arrives()
    arrives()
    for change in changes:
        builders.one_edit(document, change)
        arrives()
    for _ in changes:
        document.undo()
        arrives()


def test_nodes_that_are_known_are_not_sent_again(exchange):
    document = builders.document(long_chain(200))
    snapshots, sender = SnapshotCache(document.model), SnapshotSender(exchange)
    first = sender.model(snapshots.take()).content
    builders.one_edit(document, set_attribute, builders.node(document, "n7"), "alpha", 0.25)
    assert len(sender.model(snapshots.take()).content) < len(first) / 5


def test_other_types_than_the_graph_says_arrive(exchange):
    document = builders.document(long_chain(3))
    snapshots, sender, receiver = SnapshotCache(document.model), SnapshotSender(exchange), SnapshotReceiver(exchange)
    for types in ({}, {snapshots.take().graph.inputs[0]: TensorType(ElementType.DOUBLE)}):
        sent = replace(snapshots.take(), input_types=types)
        assert plain(receiver.model(sender.model(sent))) == plain(sent)


def test_a_receiver_that_missed_a_message_refuses_the_next(exchange):
    document = builders.document(long_chain(20))
    snapshots, sender, receiver = SnapshotCache(document.model), SnapshotSender(exchange), SnapshotReceiver(exchange)
    receiver.model(sender.model(snapshots.take()))
    for name in ("n7", "n17"):
        builders.one_edit(document, set_attribute, builders.node(document, name), "alpha", 0.25)
        message = sender.model(snapshots.take())  # the first of which is lost
    with pytest.raises(LookupError):
        receiver.model(message)


@pytest.mark.long
def test_every_run_calls_nodes_as_they_were_called_then(sessions):
    document = builders.document(long_chain(1200))
    session = sessions(document)
    x = np.ones(4, np.float32)

    def titles() -> list[str]:
        return [node.title for node in session.run({"v0": x}).nodes]

    first = session.run({"v0": x})
    builders.do(document, SetField(builders.node(document, "n700"), "name", "renamed"))
    second = session.run({"v0": x})
    builders.one_edit(document, delete_and_bridge, [builders.node(document, "n3")])
    session.steps({"v0": x})  # of which nobody asks what its nodes are called
    names = [f"n{i}" for i in range(1200)]
    assert [node.title for node in first.nodes] == names
    names[700] = "renamed"
    assert [node.title for node in second.nodes] == names
    del names[3]
    assert titles() == names
    document.undo()
    document.undo()
    assert titles() == [f"n{i}" for i in range(1200)]
