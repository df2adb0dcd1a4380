"""New-model dialog: opsets, inputs and outputs in text form."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QFormLayout,
    QLineEdit,
    QPlainTextEdit,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.model import schemas
from onnx_workbench.model.convert.ir_version import features
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import InsertNode, SetGraphInputs, SetGraphOutputs
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.text.types import parse_type
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.style.theme import monospace
from onnx_workbench.viewer.widgets.dialog_buttons import ok_and_cancel
from onnx_workbench.viewer.widgets.plain_label import plain_label

_IR_VERSION = 10


def parse_interface(text: str) -> list[tuple[str, Type]]:
    """Parse lines such as ``image: float[batch,3,224,224]``; ModelError names the invalid line."""
    values: list[tuple[str, Type]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, type_text = line.partition(":")
        if not colon or not name.strip():
            raise ModelError(f"Line {number} is not understood", "Write a name, a colon and a type: x: float[1,3].")
        values.append((name.strip(), parse_type(type_text)))
    return values


def parse_opsets(text: str) -> dict[str, int]:
    """Parse further opset imports, such as ``com.microsoft 1, ai.onnx.ml 5``."""
    imports: dict[str, int] = {}
    for part in text.replace(",", "\n").splitlines():
        words = part.replace(":", " ").split()
        if not words:
            continue
        if len(words) > 2 or (len(words) == 2 and not words[1].isdecimal()):
            raise ModelError(f"{part.strip()!r} is not an opset", "Write a domain and a version.")
        imports[words[0]] = int(words[1]) if len(words) == 2 else schemas.newest_opset(words[0])
    return imports


def new_model(name: str, opset: int, inputs: str, outputs: str, opsets: str = "") -> Model:
    """Return a model with these inputs and outputs. Each output is a copy of the input at the same position, so that
    the model is valid and runs; without inputs there are no outputs.
    """
    fed, made = parse_interface(inputs), parse_interface(outputs)
    names = [name for name, _ in (*fed, *made)]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise ModelError(f"The name {twice} is used twice", "Inputs and outputs have different names.")
    if made and not fed:
        raise ModelError("Outputs need at least one input", "Add a line to Inputs.")
    graph = Graph(name or "graph")
    values = tuple(Value(name, type_, graph) for name, type_ in fed)
    SetGraphInputs(graph, values).apply()
    for index, (output, type_) in enumerate(made):
        source = values[min(index, len(values) - 1)]
        node = Node("Identity", (source,), (Value(output, type_, graph),), name=f"Identity_{index}")
        InsertNode(graph, node).apply()
        SetGraphOutputs(graph, (*graph.outputs, *(v for v in node.outputs if v is not None))).apply()
    model = Model(graph, opset=opset)
    model.ir_version = max([_IR_VERSION, *(since for since, _what, _where in features(model))])
    model.opset_imports = {"": opset, **parse_opsets(opsets)}
    model.producer_name = "onnx-workbench"
    return model


class NewModelDialog(QDialog):
    """Asks for the new model's properties."""

    created = Signal(object)  # Model

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setWindowTitle("New model")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(520, 420)
        self.name = QLineEdit("model")
        self.name.setAccessibleName("Name")
        self.opset = QSpinBox()
        self.opset.setAccessibleName("Opset version")
        self.opset.setRange(1, schemas.newest_opset())
        self.opset.setValue(min(21, schemas.newest_opset()))
        self.opsets = QLineEdit()
        self.opsets.setAccessibleName("Further opsets")
        self.opsets.setPlaceholderText("com.microsoft 1, ai.onnx.ml 5")
        self.inputs = self._lines("Inputs", "x: float[batch,3]")
        self.outputs = self._lines("Outputs", "y: float[batch,3]")
        hint = plain_label(
            "One per line, name: type. A type is float[batch,3,224,224], int64[] for a scalar, seq(float[?])."
        )
        hint.setForegroundRole(self.palette().ColorRole.PlaceholderText)
        form = QFormLayout()
        form.addRow("Name:", self.name)
        form.addRow("Opset:", self.opset)
        form.addRow("Also:", self.opsets)
        form.addRow("Inputs:", self.inputs)
        form.addRow("Outputs:", self.outputs)
        form.addRow("", hint)
        self.error = ErrorLabel()
        buttons, self.create_button = ok_and_cancel("Create", self.try_create, self.reject)
        layout = QVBoxLayout(self)
        layout.addLayout(form, 1)
        layout.addWidget(self.error)
        layout.addWidget(buttons)
        self.name.selectAll()

    def _lines(self, name: str, text: str) -> QPlainTextEdit:
        lines = QPlainTextEdit(text)
        lines.setAccessibleName(name)
        lines.setFont(monospace())
        lines.setTabChangesFocus(True)
        return lines

    def try_create(self) -> None:
        """Create it, or show the error."""
        try:
            model = new_model(
                self.name.text().strip(),
                self.opset.value(),
                self.inputs.toPlainText(),
                self.outputs.toPlainText(),
                self.opsets.text(),
            )
        except ModelError as error:
            self.error.show_error(error)
            return
        self.accept()
        self.created.emit(model)
