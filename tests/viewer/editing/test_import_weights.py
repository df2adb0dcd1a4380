"""Import Weights: matched by name, compared, replaced in one edit."""

import json
import struct

import numpy as np
import pytest
from PySide6.QtWidgets import QFileDialog

from onnx_workbench.model.edits.initializers import set_tensor
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.viewer.dialogs.import_weights import ImportWeightsDialog

MODEL = """<ir_version: 8, opset_import: ["": 18]>
g (float[2] x) => (float[2] y)
<float[2] scale = {1, 2}, float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[1] same = {1},
 int64[1] n = {1}, float[1] own = {0}>
{ y = Mul (x, scale) }"""


@pytest.fixture
def imported(desk, qtbot, monkeypatch, tmp_path):
    """`imported(arrays)` is the dialog for a model and a file of weights, compared."""
    desk.open(MODEL)

    def open_dialog(arrays):
        header, data = {}, b""
        for name, (kind, array) in arrays.items():
            header[name] = {
                "dtype": kind,
                "shape": list(array.shape),
                "data_offsets": [len(data), len(data) + array.nbytes],
            }
            data += array.tobytes()
        text = json.dumps(header).encode()
        path = tmp_path / "weights.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
        monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
        desk.run("model.import_weights")
        qtbot.waitUntil(lambda: bool(desk.window.findChildren(ImportWeightsDialog)))
        dialog = desk.window.findChildren(ImportWeightsDialog)[0]
        qtbot.waitUntil(lambda: not desk.workspace.tasks.running)
        return dialog

    return open_dialog


def rows(dialog):
    model = dialog.model
    return [
        [model.index(row, column).data() for column in range(model.columnCount())] for row in range(model.rowCount())
    ]


def test_weights_are_matched_compared_and_imported_in_one_edit(desk, qtbot, imported):
    dialog = imported(
        {
            "model.scale": ("F64", np.array([1.0, 5.0])),
            "w": ("F32", np.arange(6, dtype=np.float32).reshape(3, 2)),
            "same": ("F16", np.float16([1])),
            "n": ("F32", np.float32([1])),
            "other": ("F32", np.float32([1])),
        }
    )
    assert rows(dialog) == [
        ["scale", "model.scale", "[2]", "", "3"],
        ["w", "w", "2×3", "will be transposed", "3"],
        ["same", "same", "[1]", "", "equal"],
        ["n", "n", "[1]", "the file has float", ""],
    ]
    assert dialog.ok.text() == "Import 3 tensors"
    assert dialog.summary.text() == (
        "To be replaced: 3 initializers, of another shape or type: 1, not in the file: 1, "
        "not used of the file: 1 array."
    )
    dialog.differing.setChecked(True)
    assert [row[0] for row in rows(dialog)] == ["scale", "w", "n"]
    dialog.ok.click()
    qtbot.waitUntil(lambda: desk.document.undo_title == "Import weights from weights.safetensors")
    assert desk.value("scale").initializer.numpy().tolist() == [1, 5]
    assert desk.value("scale").initializer.element_type is ElementType.FLOAT
    assert desk.value("w").initializer.numpy().tolist() == [[0, 2, 4], [1, 3, 5]]
    assert desk.value("n").initializer.numpy().tolist() == [1]
    desk.run("edit.undo")
    assert desk.value("scale").initializer.numpy().tolist() == [1, 2]


@pytest.mark.long
def test_nothing_is_offered_when_no_name_matches(imported):
    dialog = imported({"elsewhere": ("F32", np.float32([1]))})
    assert rows(dialog) == []
    assert not dialog.ok.isEnabled()


def test_an_edit_before_the_import_is_not_overwritten(desk, qtbot, imported):
    dialog = imported({"scale": ("F32", np.float32([3, 4]))})
    with desk.document.edit("Other values") as edit:
        set_tensor(edit, desk.value("scale"), ArrayTensor(np.float32([7, 8])))
    dialog.ok.click()
    qtbot.waitUntil(dialog.error.isVisible)
    assert "in the meantime" in dialog.error.text()
    assert desk.value("scale").initializer.numpy().tolist() == [7, 8]
