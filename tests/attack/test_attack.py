"""The program under attack: a few cases of each kind, and thousands of a fresh seed, which is printed, with `-m slow`.

ATTACK_SEED does again what a seed did, ATTACK_FILES says how many files the long run tries, ATTACK_MINUTES how long
random hands use the window. `python -m tests.attack.monkey` runs by itself.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from onnx import ModelProto, numpy_helper
from onnx.helper import make_node
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu, QToolButton
from pytestqt.qtbot import QtBot

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.recover import find_journals, recover
from onnx_workbench.model.sandbox import is_running
from onnx_workbench.viewer.program.single_instance import OpenMessage
from tests.attack.attack import Attack
from tests.attack.hostile_files import MAKERS, HostileFile, doubled, endless, hostile_files, model_of, nested_ifs
from tests.attack.monkey import StuckMenus
from tests.attack.mutations import mutated, mutated_bytes
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.recovery.recorded_work import work
from tests.model.snapshots import assert_linked
from tests.real_models import RealModels

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the commands run in forked processes with limits")

_LARGEST = 4 << 20  # of a model that is changed
_FILES = int(os.environ.get("ATTACK_FILES", "3000"))


@pytest.fixture
def seed() -> int:
    """Fixed where the examples of hypothesis are, else a fresh one, which a failure shows."""
    usual = 1 if settings.default.derandomize else random.SystemRandom().randrange(1 << 32)
    found = int(os.environ.get("ATTACK_SEED", usual))
    print(f"ATTACK_SEED={found}")
    return found


def hours(*values: object) -> object:
    """Parameters of a test that takes minutes or more."""
    return pytest.param(*values, marks=[pytest.mark.slow, pytest.mark.timeout(0)])


@pytest.mark.parametrize(
    ("files", "mutants", "named"), [(len(MAKERS), 4, 1), hours(_FILES * 2 // 3, _FILES // 3, 0.98)]
)
def test_no_file_breaks_a_command(tmp_path: Path, seed: int, files: int, mutants: int, named: float) -> None:
    """Neither a made file nor a mutant of a real model."""
    rng = random.Random(seed)
    models = [path for path in RealModels().files() if path.stat().st_size <= _LARGEST]
    (tmp_path / "files").mkdir()
    with Attack(tmp_path / "files", seed) as attack:
        for hostile in islice(hostile_files(rng), files):
            attack.try_file(hostile)
        for _ in range(mutants):
            attack.try_file(HostileFile("mutants", mutated(rng.choice(models).read_bytes(), rng)))
    print(attack.figures, *attack.figures.faults, *attack.figures.unnamed, sep="\n")
    assert not attack.figures.faults
    assert attack.figures.named >= named


def constants_that_double() -> ModelProto:
    """Small constants from which inference would make large ones."""
    model = doubled(50)
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(1024, np.float32), "v0"))
    del model.graph.input[:]
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "commands"),
    [
        (constants_that_double, ["check FILE", "infer FILE -o out.onnx"]),
        (lambda: doubled(50), ["check FILE", "infer FILE -o out.onnx", "run FILE --time-limit 2 --memory-limit 200M"]),
        (lambda: nested_ifs(12, 2, same=True), ["check FILE", "simplify FILE -o out.onnx"]),
        (lambda: model_of([make_node("Sum", [f"u{i}" for i in range(300_000)], ["y"])]), ["info FILE", "check FILE"]),
    ],
    ids=["constants", "doubled", "nested", "undefined"],
)
def test_what_took_minutes_or_gigabytes_is_quick_and_small(
    tmp_path: Path, make: Callable[[], ModelProto], commands: list[str]
) -> None:
    (tmp_path / "files").mkdir()
    with Attack(tmp_path / "files", 0) as attack:
        attack.try_commands(HostileFile("first attack", make().SerializeToString()), commands)
    assert not attack.figures.faults


def convert_on_small_disk(path: Path, rng: random.Random) -> str:
    """Convert a file into itself where files may have so many bytes only; "" if it is whole then."""
    size = rng.randrange(1, 2 * path.stat().st_size)
    words = ["convert", str(path), "--strip", "doc", "-o", str(path), "--check", "0"]
    before = path.read_bytes()

    def limit() -> None:
        import resource  # which Windows lacks

        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    command = [sys.executable, "-m", "onnx_workbench", *words]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    if "Traceback" in done.stderr or done.returncode not in (0, 2):
        return f"exit {done.returncode} with {size} bytes: {done.stderr[-500:]}"
    if done.returncode and path.read_bytes() != before:
        return f"the file changed with {size} bytes: {done.stderr[-500:]}"
    found = load(path)
    problems = [v.initializer.problem for v in found.graph.initializers if v.initializer is not None]
    return "" if not any(problems) else f"{problems[:2]} with {size} bytes"


@pytest.mark.parametrize("conversions", [pytest.param(1, marks=pytest.mark.long), hours(30)])
def test_full_disks_leave_a_whole_file(tmp_path: Path, seed: int, conversions: int) -> None:
    rng = random.Random(seed)
    models = [path for path in RealModels().files() if path.stat().st_size < 1 << 20]
    for _ in range(conversions):
        path = tmp_path / "model.onnx"
        path.write_bytes(rng.choice(models).read_bytes())
        assert convert_on_small_disk(path, rng) == ""
        left = sorted(p.name for p in tmp_path.iterdir() if p.suffix not in (".onnx", ".data"))
        for other in tmp_path.iterdir():
            other.unlink()
        assert len(left) < 2


def write_journal(folder: Path) -> None:
    """Leave the journal of some edits as a crash would."""
    document = builders.document()
    journal = Journal(document, folder)
    work(document)
    document.undo()
    abandon(journal)


def recover_damaged(whole: Path, folder: Path, rng: random.Random) -> None:
    """Change bytes of a copy of a folder of journals, and recover: nothing but a message may come of it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    path = rng.choice(sorted(path for path in folder.iterdir() if path.stat().st_size))
    path.write_bytes(mutated_bytes(path.read_bytes(), rng))
    for leftover in find_journals(folder):
        document = builders.document()
        try:
            recover(document, leftover)
        except ModelError:
            pass  # says how far it got
        assert_linked(document.model)
        while document.undo():
            pass
        assert_linked(document.model)


@pytest.mark.parametrize("times", [40, hours(3000)])
def test_damaged_journals_recover_up_to_the_damage(tmp_path: Path, seed: int, dead: None, times: int) -> None:
    rng = random.Random(seed)
    (tmp_path / "whole").mkdir()
    write_journal(tmp_path / "whole")
    for _ in range(times):
        recover_damaged(tmp_path / "whole", tmp_path / "damaged", rng)


def test_no_message_from_another_process_is_more_than_files_to_open(seed: int) -> None:
    rng = random.Random(seed)
    good = OpenMessage(("/a.onnx", "/b.onnx"), "token").to_bytes()
    for _ in range(3000):
        message = OpenMessage.from_bytes(mutated_bytes(good, rng))
        assert message is None or all(name.startswith("/") and "\0" not in name for name in message.files)


_WINDOW = """
import sys
from pathlib import Path
from onnx_workbench.viewer.app import Application

application = Application()
window = application.start([])
window.files.opened.connect(lambda tab: tab.workspace.trigger("run.run"))
window.files.open([Path(sys.argv[1])])
application.exec()
"""


def children_of(process: int) -> list[int]:
    """The processes that one started, and those that these did."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    found = [process]
    for parent in found:
        found += [child for child, its in parents.items() if its == parent]
    return found[1:]


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only /proc tells")
def test_a_killed_window_leaves_no_process(tmp_path: Path) -> None:
    path = tmp_path / "endless.onnx"
    path.write_bytes(endless(random.Random(1)).SerializeToString())
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "ONNX_WORKBENCH_STATE": str(tmp_path / "state")}
    with subprocess.Popen([sys.executable, "-c", _WINDOW, str(path)], env=environment) as window:
        children: list[int] = []
        while not children:
            assert window.poll() is None
            time.sleep(0.1)
            children = children_of(window.pid)
        time.sleep(1)  # any moment of the run will do
        children = children_of(window.pid)
        window.kill()
    while any(map(is_running, children)):
        time.sleep(0.05)


class Kept:
    """What a frame keeps."""


def test_looking_at_the_gui_thread_keeps_nothing_alive(qapp: object) -> None:
    from tests.attack.heartbeat import Heartbeat  # it uses a signal that not all systems have

    heartbeat = Heartbeat()

    def work() -> weakref.ref[Kept]:
        kept = Kept()
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            pass
        return weakref.ref(kept)

    try:
        while heartbeat.stack.count("work") < 5:
            assert work()() is None
    finally:
        heartbeat.stop()


def test_random_hands_do_not_wait_for_a_menu_that_they_opened(qtbot: QtBot) -> None:
    button, menu = QToolButton(), QMenu()
    qtbot.addWidget(button)
    qtbot.addWidget(menu)
    menu.addAction("Copy")
    button.setMenu(menu)
    button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    button.show()
    opened = []
    menu.aboutToShow.connect(lambda: opened.append(menu))
    stuck = StuckMenus(lambda: 1, 20)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)  # returns once the menu is closed
    assert opened == [menu]
    qtbot.waitUntil(lambda: not menu.isVisible())
    stuck.stop()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--steps", "60"), marks=pytest.mark.long),
        hours(("--minutes", os.environ.get("ATTACK_MINUTES", "20"))),
    ],
)
def test_random_hands_find_nothing(seed: int, options: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "tests.attack.monkey", "--seed", str(seed), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    print(done.stdout[-4000:])
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
