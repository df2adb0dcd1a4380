"""Whatever a script holds, it is applied or refused: nothing hangs, and a refused one leaves the model as it was."""

from __future__ import annotations

import json
import random
from functools import cache

import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.scripts import edit_script
from tests.model import builders
from tests.model.recovery.recorded_work import work
from tests.model.snapshots import assert_linked, snapshot

HOSTILE = [
    5, -1, 1 << 70, 1.5, float("inf"), True, None, "", "x", "new 1", "main", [], {}, [[]], ["x", 5],
    {"new": "new 1"}, {"new": 7, "name": None}, "\ud800",
]  # fmt: skip


@cache
def script():
    """The lines of a script that does many kinds of things."""
    document = builders.document()
    work(document)
    return edit_script.export(document).splitlines()


def places(entry, path=()):
    """The paths of everything in a JSON value."""
    yield path
    inner = entry.items() if isinstance(entry, dict) else enumerate(entry) if isinstance(entry, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def changed(entry, rng):
    """The JSON value with something else at one place."""
    copy = json.loads(json.dumps(entry))
    path = rng.choice([path for path in places(copy) if path] or [()])
    if not path:
        return rng.choice(HOSTILE)
    target = copy
    for key in path[:-1]:
        target = target[key]
    others = [other for other in places(copy) if other]
    choice = rng.random()
    if choice < 0.15 and isinstance(target, dict):
        del target[path[-1]]
    elif choice < 0.4:
        found = copy
        for key in rng.choice(others):
            found = found[key]
        target[path[-1]] = json.loads(json.dumps(found))
    else:
        target[path[-1]] = rng.choice(HOSTILE)
    return copy


def hostile(seed, lines=None):
    rng = random.Random(seed)
    lines = list(lines or script())
    for _ in range(rng.randint(1, 3)):
        number = rng.randrange(1, len(lines))
        lines[number] = json.dumps(changed(json.loads(lines[number]), rng))
    if rng.random() < 0.2:
        lines.insert(rng.randrange(1, len(lines)), rng.choice(lines[1:]))
    return "\n".join(lines)


def assert_harmless(document, text):
    before = snapshot(document.model)
    try:
        edit_script.replay(document, text)
    except ModelError:
        assert snapshot(document.model) == before
    assert_linked(document.model)
    try:
        load(to_bytes(document.model))
    except ModelError:
        pass  # names that no file can hold are refused when it is saved
    document.go_to(document.root)
    assert_linked(document.model)
    assert snapshot(document.model) == before


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_a_script_with_anything_anywhere_is_applied_or_refused(seed):
    assert_harmless(builders.document(), hostile(seed))


@pytest.mark.parametrize(
    ("to", "before", "reason"),
    [
        ({"new": "new 1", "op_type": "Relu", "domain": 5, "outputs": [], "inputs": []}, None, "5 is not a string"),
        ({"new": "new 1", "op_type": "Relu", "outputs": [], "inputs": []}, "new 1", "before itself"),
        ({"new": "new 1", "op_type": ["Relu"], "outputs": [], "inputs": []}, None, "is not a string"),
        ({"new": "new 1", "op_type": "Relu", "outputs": ["a"], "inputs": []}, None, "a as an output"),
    ],
)
def test_nodes_that_cannot_be_inserted_are_refused(to, before, reason):
    step = {"do": "insert node", "graph": "main", "to": to, "before": before}
    text = "\n".join([script()[0], json.dumps({"edit": "t", "steps": [step]})])
    with pytest.raises(ModelError, match="Line 2 of the script is damaged") as error:
        edit_script.replay(builders.document(), text)
    assert reason in error.value.detail
    assert_harmless(builders.document(), text)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_scripts_with_anything_anywhere_are_applied_or_refused():
    for seed in range(20_000):
        assert_harmless(builders.document(), hostile(f"many {seed}"))
