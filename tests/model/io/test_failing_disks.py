"""Saving while calls fail, processes are killed and the power goes: the old model or the new one is there, whole."""

import errno
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetInitializer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer import atomic_file
from onnx_workbench.model.io.writer.save import prepare, save
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.tensors import ArrayTensor
from tests.model.io.saved_models import assert_holds, debris, edit, proto_of, weights

pytestmark = pytest.mark.usefixtures("scan_everything")

CALLS = ("open", "write", "fsync", "fchmod", "replace", "close")


class Failing:
    """The k-th system call of a save fails, and all after it where the disk stays full or read-only."""

    def __init__(self, monkeypatch, at, error, calls=CALLS):
        self.count = 0
        self.at = at
        self.lasts = error in (errno.ENOSPC, errno.EROFS)
        self.failed = ""
        for name in calls:
            if hasattr(os, name):
                monkeypatch.setattr(os, name, self.wrap(name, getattr(os, name), error))

    def wrap(self, name, call, error):
        def wrapped(*args, **keywords):
            if name != "close":
                self.count += 1
                if self.count == self.at or (self.lasts and self.count > self.at):
                    self.failed = name
                    raise OSError(error, os.strerror(error))
            return call(*args, **keywords)

        return wrapped


@pytest.mark.long
@pytest.mark.parametrize("layout", [DataLayout.KEEP, DataLayout.ONE_FILE])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EROFS", "EACCES", "EXDEV", "EINTR", "EDQUOT", "ENOENT"])
def test_whichever_call_fails_one_whole_file_remains(path, error, layout):
    before = path.read_bytes()
    model = load(path)
    edit(model)
    results = set()
    for k in range(1, 100):
        path.write_bytes(before)
        for rest in path.parent.glob("*.data"):
            rest.unlink()
        model = load(path)
        edit(model)
        saving = prepare(model, path, Storage(layout))
        with pytest.MonkeyPatch.context() as patch:
            failing = Failing(patch, k, getattr(errno, error))
            try:
                saving.run()
                message = ""
            except ModelError as caught:
                message = str(caught)
        done = not message
        assert not debris(path.parent), failing.failed
        if done:
            assert load(path).graph.nodes.first.name == "edited"
            assert_holds(load(path))
        else:
            assert message.startswith("The model could not be saved"), message
            assert "The existing file is unchanged." in message
            assert path.read_bytes() == before, failing.failed
            assert not list(path.parent.glob("*.data"))
        if error == "EINTR" and failing.failed == "write":
            assert done
        results.add(done)
        if not failing.failed:
            break
    assert k > 5
    assert results == {True, False}


@pytest.mark.parametrize("longest", [50, 777, 1 << 30])
def test_short_writes_go_on_where_they_stopped(path, monkeypatch, longest):
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:longest]))
    model = load(path)
    edit(model)
    save(model, path)
    assert_holds(load(path))


KILLED = """
import os, random, signal, sys, threading
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.io.reader import read
from onnx_workbench.model.io.writer import atomic_file
from onnx_workbench.model.history.steps import SetField
read.PARSED_WHOLE = 0
atomic_file._STEP = 1 << 16
model = load({path!r})
SetField(model.graph.nodes.first, "name", "edited").apply()
calls = {{name: getattr(os, name) for name in ("write", "fsync", "replace", "fchmod")}}
left = {calls}
def wrap(name):
    def wrapped(*args, **keywords):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return calls[name](*args, **keywords)
    return wrapped
for name in calls:
    setattr(os, name, wrap(name))
save(model, {path!r})
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal here")
def test_a_kill_before_any_call_leaves_a_whole_file(path):
    before = path.read_bytes()
    finished = left_something = False
    for calls in range(1, 40):
        path.write_bytes(before)
        program = KILLED.format(path=str(path), calls=calls)
        finished = subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
        assert path.read_bytes() == before or load(path).graph.nodes.first.name == "edited"
        assert_holds(load(path))
        left_something |= bool(debris(path.parent))
        if finished:
            break
    assert finished
    assert calls > 4
    assert left_something
    assert not debris(path.parent)


def test_temporary_files_of_a_save_that_goes_on_are_left_alone(path):
    other = atomic_file.AtomicFile(path)
    save(load(path), path)
    assert len(debris(path.parent)) == 1
    other.discard()
    assert not debris(path.parent)


# -- power loss ------------------------------------------------------------------------------------------------


class Recorder:
    """What a save asks of the disk, in order: ("create" | "rename" | "unlink" | "data" | "sync", …).

    A file is the number of its creation, whatever its name. "data" holds all that was written to it so far.
    """

    CALLS = ("open", "write", "fsync", "replace", "unlink")

    def __init__(self, patch):
        self.events = []
        self._files = {}  # number and path by descriptor
        self._numbers = {}  # by path
        for name in self.CALLS:
            if hasattr(os, name):
                patch.setattr(os, name, getattr(self, name)(getattr(os, name)))

    def open(self, call):
        def wrapped(path, flags, *args, **keywords):
            descriptor = call(path, flags, *args, **keywords)
            self._files.pop(descriptor, None)
            if flags & os.O_CREAT:
                number = len(self.events)
                self._files[descriptor] = number, Path(path)
                self._numbers[Path(path).name] = number
                self.events.append(("create", Path(path).name, number))
            return descriptor

        return wrapped

    def write(self, call):
        def wrapped(descriptor, data):
            done = call(descriptor, data)
            number, path = self._files[descriptor]
            self.events.append(("data", number, path.read_bytes()))
            return done

        return wrapped

    def fsync(self, call):
        def wrapped(descriptor):
            self.events.append(("sync", self._files.get(descriptor, ("folder",))[0]))
            return call(descriptor)

        return wrapped

    def replace(self, call):
        def wrapped(source, target):
            source, target = Path(source), Path(target)
            self._numbers[target.name] = self._numbers.pop(source.name)
            self.events.append(("rename", source.name, target.name, self._numbers[target.name]))
            return call(source, target)

        return wrapped

    def unlink(self, call):
        def wrapped(path, **keywords):
            self.events.append(("unlink", Path(path).name))
            return call(path, **keywords)

        return wrapped


def disks_after(events, before):
    """Every content of a folder that a disk may be found with when the power goes after these events.

    What was synced is there. Of the names given since, any may be there or not; of what was written since to a file,
    all, half or nothing.
    """
    last = max((i for i, event in enumerate(events) if event == ("sync", "folder")), default=-1)
    naming = [(i, event) for i, event in enumerate(events) if event[0] in ("create", "rename", "unlink")]
    loose = [i for i, _ in naming if i > last]
    contents = {}
    for kind, *rest in events:
        if kind == "data":
            contents.setdefault(rest[0], [b""]).append(rest[1])
        elif kind == "sync" and rest[0] in contents:
            contents[rest[0]] = contents[rest[0]][-1:]
    for kept in itertools.chain.from_iterable(itertools.combinations(loose, n) for n in range(len(loose) + 1)):
        names = dict.fromkeys(before, "before")
        for i, (kind, *rest) in naming:
            if i in loose and i not in kept:
                continue
            if kind == "rename":
                names.pop(rest[0], None)
            if kind == "unlink":
                names.pop(rest[0], None)
            else:
                names[rest[-2]] = rest[-1]
        numbers = sorted({number for number in names.values() if number != "before"})
        found = [_found_of(contents.get(number, [b""])) for number in numbers]
        for choice in itertools.product(*found):
            chosen = dict(zip(numbers, choice, strict=True))
            yield {n: before[n] if number == "before" else chosen[number] for n, number in names.items()}


def _found_of(versions):
    """What may be found of a file: as it was synced, all that was written since, or half of that."""
    newest = versions[-1]
    return {versions[0], newest, newest[: len(versions[0]) + (len(newest) - len(versions[0])) // 2]}


@pytest.mark.parametrize("layout", [DataLayout.KEEP, DataLayout.ONE_FILE, DataLayout.FILE_PER_TENSOR])
@pytest.mark.parametrize("external", ["", "e.bin"])
def test_a_power_cut_leaves_a_whole_model_with_its_data(tmp_path, layout, external):
    folder = tmp_path / "before"
    folder.mkdir()
    path = folder / "m.onnx"
    old = weights()
    path.write_bytes(proto_of(old, external).SerializeToString())
    if external:
        (folder / external).write_bytes(b"".join(a.tobytes() for a in old.values()))
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    model = load(path)
    edit(model)
    new = {**old, "w1": old["w1"] + 1}
    SetInitializer(model.graph, model.graph.initializers[1], ArrayTensor(new["w1"], name="w1")).apply()
    saving = prepare(model, path, Storage(layout))
    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(patch)
        saving.run()
    assert ("sync", "folder") in recorder.events
    seen, names = set(), set()
    for count in range(len(recorder.events) + 1):
        for disk in disks_after(recorder.events[:count], before):
            key = tuple(sorted((name, hash(data)) for name, data in disk.items()))
            if key in seen:
                continue
            seen.add(key)
            names.add(_name_after_restart(tmp_path / f"disk{len(seen)}", disk, old, new))
    assert names == {"sum", "edited"}
    assert {_name_after_restart(tmp_path / "end", d, old, new) for d in disks_after(recorder.events, before)} == {
        "edited"
    }


def _name_after_restart(folder, disk, old, new):
    """Which model is there, the old or the new one, after looking at all its weights."""
    folder.mkdir(exist_ok=True)
    for name, data in disk.items():
        (folder / name).write_bytes(data)
    model = load(folder / "m.onnx")
    name = model.graph.nodes.first.name
    assert_holds(model, new if name == "edited" else old)
    model.source.close()
    return name
