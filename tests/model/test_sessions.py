"""Days of work on files: any edits, undo and redo between saves, crashes and reopening; nothing is ever lost."""

import shutil
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from onnx_workbench.model.edits import initializers
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import prepare, save
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.recover import find_journals, recover
from onnx_workbench.model.scripts import edit_script
from tests.model import builders
from tests.model.edits.rich_models import rich_bytes
from tests.model.edits.test_any_edits import AnyEdits, pick
from tests.model.recovery.crash import abandon
from tests.model.snapshots import assert_linked, snapshot
from tests.real_models import FOLDER

#: Small real models: weights, strings, ai.onnx.ml attributes, missing names, old opsets.
REAL = (
    "onnxruntime__mul_1", "sklearn_label_encoder_strings", "sklearn_mlp_pca", "sklearn_columns_onehot_ordinal_mixed",
    "onnx__light_bvlc_alexnet",
)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _quick_disk():
    """What survives a power failure is another test's business."""
    with mock.patch("os.fsync"):
        yield


def _beginnings() -> list[bytes]:
    """Files to begin with: those built here, and the real ones that are there."""
    made = [builders.proto(text).SerializeToString() for text in (builders.CHAIN, builders.BRANCHES)]
    paths = [FOLDER / name / "model.onnx" for name in REAL]
    return [*made, rich_bytes(), *(path.read_bytes() for path in paths if path.exists())]


class Session(AnyEdits):
    """The user of AnyEdits at a file, saving, closing, opening, and losing the program now and then."""

    @initialize(data=st.sampled_from(_beginnings()))
    def open(self, data):
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "model.onnx"
        self.path.write_bytes(data)
        self.fragment = None
        self.journal = None
        self._open()

    def _open(self):
        if self.journal is not None:
            self.journal.close()  # nothing to close after a crash
        self.document = Document(load(self.path), self.path)
        self.journal = Journal(self.document, self.folder / "state")
        self.states = {0: snapshot(self.document.model)}
        self.began_with = self.path.read_bytes()
        self.written = {0: self.began_with}  # by the state of the history

    def _took_place(self):
        """The file holds the state now, as often as it is written, and reads as that state."""
        state = self.document.current.id
        data = self.path.read_bytes()
        assert self.written.setdefault(state, data) == data
        assert snapshot(load(self.path), saved=True) == snapshot(self.document.model, saved=True)

    @rule()
    def save(self):
        save(self.document.model, self.path)
        self.document.mark_saved(self.path)
        self._took_place()

    @rule(undone=st.integers(0, 3), what=pick)
    def edit_while_saving(self, undone, what):
        saving, state = prepare(self.document.model, self.path), self.document.current.id
        before = snapshot(self.document.model, saved=True)
        self.undo(undone)
        self.insert_on_edge(what)
        saving.run()
        self.document.mark_saved(self.path, state)
        assert snapshot(load(self.path), saved=True) == before

    @rule()
    def reopen(self):
        save(self.document.model, self.path)
        self._took_place()
        self._open()

    @rule()
    def crash(self):
        """The next start finds the journal, and goes on with what it brings back."""
        lost = snapshot(self.document.model, saved=True)
        abandon(self.journal)
        self._open()
        with mock.patch("onnx_workbench.model.recovery.recover.is_running", return_value=False):
            for leftover in find_journals(self.folder / "state"):
                assert leftover.fits
                recover(self.document, leftover)
        assert snapshot(self.document.model, saved=True) == lost
        assert_linked(self.document.model)
        self.states = {0: self.states[0]}

    @rule(what=pick, number=st.integers(-3, 3))
    def change_weights(self, what, number):
        value = self.value(what)
        if value is not None and isinstance(value.initializer, Tensor) and value.initializer.size < 4096:
            values = value.initializer.numpy()
            if values.dtype.kind == "f":
                new = initializers.ArrayTensor(values + values.dtype.type(number))
                self.edit(lambda edit: initializers.set_tensor(edit, value, new))

    def teardown(self):
        if hasattr(self, "document"):
            try:
                self._end()
                super().teardown()
            finally:
                self.journal.close()
                shutil.rmtree(self.folder)

    def _end(self):
        """Undo of everything gives the bytes it began with; redo, what it was; the script does the same to the file."""
        again = Document(load(self.began_with))
        edit_script.replay(again, edit_script.export(self.document))
        assert snapshot(again.model) == snapshot(self.document.model)
        final = self.document.current
        self.document.go_to(self.document.root)
        save(self.document.model, self.path)
        assert self.path.read_bytes() == self.began_with
        self.document.go_to(final)
        save(self.document.model, self.path)
        self._took_place()


TestSession = Session.TestCase
TestSession = pytest.mark.long(TestSession)
TestSession.settings = settings(stateful_step_count=25)
