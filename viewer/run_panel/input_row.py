"""One input in the Run panel: name, type, and the source of its value."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QPalette
from PySide6.QtWidgets import (
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.exec.inputs.images import SUFFIXES, ImageOptions, declared_size, element_type
from onnx_workbench.exec.inputs.sources import Constant, File, InputSource, Random, Range
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.array_files import npz_members
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import ElementType, OptionalType, SequenceType, SparseTensorType, TensorType, Type
from onnx_workbench.model.text.formatting import display, type_text
from onnx_workbench.viewer.run.session.inputs import RunInputs, SourceKind, kind_of
from onnx_workbench.viewer.run_panel.controls import Combo
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.style.tooltips import plain_tip, wrapped
from onnx_workbench.viewer.widgets.elided_label import ElidedLabel
from onnx_workbench.viewer.widgets.flow_layout import in_a_column, in_a_row
from onnx_workbench.viewer.widgets.number_edit import NumberEdit
from onnx_workbench.viewer.widgets.plain_label import plain_label

_KINDS: list[tuple[str, object]] = [
    ("Random", "random"),
    ("Constant", "constant"),
    ("Range", "range"),
    ("File or image", "file"),
]
_NAME_LEAST = 120  # px
_WITHOUT_BOUNDS = (ElementType.STRING, ElementType.BOOL)
_GIVEN: Literal["saved"] = "saved"  # the value is from a loaded run; cannot be chosen
_FILES = (
    "Values (*.npy *.npz *.pb *.csv *.tsv *.txt "
    + " ".join(f"*{suffix}" for suffix in sorted(SUFFIXES))
    + ");;All files (*)"
)


class InputRow(QWidget):
    """Shows the source of one input and changes it."""

    def __init__(self, inputs: RunInputs, value: Value) -> None:
        super().__init__()
        self._inputs = inputs
        self._name = value.name
        shown = display(value.name, 60) or "(unnamed)"
        element = _element_of(value.type)
        kinds = [kind for kind in _KINDS if kind[1] != "range" or element is not ElementType.STRING]
        self.source = Combo(f"Source of {shown}", kinds)
        self.editors: dict[str, _Editor] = {
            "random": _RandomEditor(self._choose, shown, element),
            "constant": _ConstantEditor(self._choose, shown),
            "range": _RangeEditor(self._choose, shown),
            "file": _FileEditor(self._choose, value, inputs),
        }
        self._stack = _Stack()
        for editor in self.editors.values():
            self._stack.addWidget(editor)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 4)
        layout.setSpacing(4)
        layout.addLayout(_title(value, shown))
        layout.addWidget(self.source)
        layout.addWidget(self._stack)
        self.source.activated.connect(self._on_kind)
        self.refresh()

    def refresh(self) -> None:
        """Show the current choice."""
        source = self._inputs.source(self._name)
        kind = kind_of(source)
        self.editors[kind].show_source(source)
        self._stack.show_page(self.editors[kind])
        is_given = self._name in self._inputs.given
        self._offer_given(is_given)
        self.source.choose(_GIVEN if is_given else kind)
        self._stack.setVisible(not is_given)

    def _offer_given(self, is_given: bool) -> None:
        """Show a saved run as the source while the value is from it; it cannot be chosen."""
        index = self.source.findData(_GIVEN)
        blocked = self.source.blockSignals(True)
        if is_given and index < 0:
            self.source.insertItem(0, "Saved run", _GIVEN)
        elif not is_given and index >= 0:
            self.source.removeItem(index)
        self.source.blockSignals(blocked)

    def _on_kind(self, _index: int) -> None:
        kind: SourceKind | Literal["saved"] = self.source.currentData()
        if kind == _GIVEN:
            return
        editor = self.editors[kind]
        self._stack.show_page(editor)
        if isinstance(editor, _FileEditor):
            source = self._inputs.source(self._name)
            if isinstance(source, File):
                self._choose(source)
            else:
                editor.browse()
                self.refresh()
        else:
            self._choose(editor.first())

    def _choose(self, source: InputSource) -> None:
        self._inputs.set_source(self._name, source)


def _title(value: Value, shown: str) -> QHBoxLayout:
    """Return the name of an input and its type; if both are long, both are elided, the type more."""
    name = ElidedLabel(elide=Qt.TextElideMode.ElideMiddle)
    name.setText(shown)
    font = QFont(name.font())
    font.setWeight(QFont.Weight.Medium)
    name.setFont(font)
    name.setMinimumWidth(min(name.sizeHint().width(), _NAME_LEAST))
    name.setToolTip(plain_tip(display(value.name, 500)))
    kind = ElidedLabel(elide=Qt.TextElideMode.ElideMiddle)
    kind.setText(display(type_text(value.type), 200))
    kind.setToolTip(plain_tip(kind.text()))
    kind.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    kind.setForegroundRole(QPalette.ColorRole.PlaceholderText)
    row = QHBoxLayout()
    row.addWidget(name, 1)
    row.addWidget(kind)
    return row


def _element_of(declared: Type | None) -> object:
    """Return the element type of a tensor, also inside an optional or a sequence."""
    while isinstance(declared, (OptionalType, SequenceType)):
        declared = declared.element
    return declared.element_type if isinstance(declared, (TensorType, SparseTensorType)) else None


class _Stack(QStackedWidget):
    """Stack as high as the current page."""

    def show_page(self, page: QWidget) -> None:
        """Show a page."""
        for other in self.findChildren(_Editor):
            policy = QSizePolicy.Policy.Preferred if other is page else QSizePolicy.Policy.Ignored
            other.setSizePolicy(QSizePolicy.Policy.Preferred, policy)
        self.setCurrentWidget(page)
        self.adjustSize()
        self.updateGeometry()


class _Editor(QWidget):
    """Editor for sources of one kind."""

    def __init__(self, choose: Any) -> None:
        super().__init__()
        self._choose = choose

    def show_source(self, source: InputSource) -> None:
        """Show a source of this kind."""

    def first(self) -> InputSource:
        """Return the initial source of this kind."""
        return Random()


class _RandomEditor(_Editor):
    """Texts and booleans have no bounds, integers only one distribution."""

    def __init__(self, choose: Any, name: str, element: object) -> None:
        super().__init__(choose)
        self._source = Random()
        self.distribution = Combo(f"Distribution of {name}", [("Uniform", "uniform"), ("Normal", "normal")])
        self.low = NumberEdit(f"Lowest value or mean of {name}", "from")
        self.low.number_entered.connect(lambda number: self._set(low=number))
        self.high = NumberEdit(f"Highest value or deviation of {name}", "to")
        self.high.number_entered.connect(lambda number: self._set(high=number))
        self.seed = NumberEdit(f"Seed of {name}", "seed", count=True)
        self.seed.number_entered.connect(lambda number: self._set(seed=None if number is None else int(number)))
        self.seed.setToolTip("Seed of this input; empty: that of the run")
        in_a_column(self, in_a_row(self.distribution, self.low, self.high, self.seed))
        is_whole = isinstance(element, ElementType) and element.is_int
        self.distribution.setVisible(not is_whole and element not in _WITHOUT_BOUNDS)
        for bound in (self.low, self.high):
            bound.setVisible(element not in _WITHOUT_BOUNDS)
        self.distribution.activated.connect(lambda _: self._set(distribution=self.distribution.currentData()))

    def _set(self, **fields: Any) -> None:
        changed = replace(self._source, **fields)
        if changed != self._source:
            self._source = changed
            self._choose(changed)

    def show_source(self, source: InputSource) -> None:
        assert isinstance(source, Random)
        self._source = source
        self.distribution.choose(source.distribution)
        normal = source.distribution == "normal"
        self.low.setPlaceholderText("mean" if normal else "from")
        self.high.setPlaceholderText("deviation" if normal else "to")
        self.low.show_number(source.low)
        self.high.show_number(source.high)
        self.seed.show_number(source.seed)


class _ConstantEditor(_Editor):
    def __init__(self, choose: Any, name: str) -> None:
        super().__init__(choose)
        self.text = QLineEdit()
        self.text.setAccessibleName(f"Constant for {name}")
        self.text.setPlaceholderText("0, true, a string, or a list such as [[1, 2], [3, 4]]")
        in_a_column(self, self.text)
        self.text.editingFinished.connect(self._enter)

    def _enter(self) -> None:
        self._choose(self.first())

    def first(self) -> InputSource:
        return Constant(constant_from(self.text.text()))

    def show_source(self, source: InputSource) -> None:
        assert isinstance(source, Constant)
        if not self.text.hasFocus():
            self.text.setText(source.value if isinstance(source.value, str) else json.dumps(source.value))


class _RangeEditor(_Editor):
    def __init__(self, choose: Any, name: str) -> None:
        super().__init__(choose)
        self.start = NumberEdit(f"First value of {name}", "first")
        self.step = NumberEdit(f"Step of {name}", "step")
        for edit in (self.start, self.step):
            edit.number_entered.connect(self._enter)
        in_a_column(self, in_a_row(QLabel("first"), self.start, QLabel("step"), self.step))

    def _enter(self, _number: float | None) -> None:
        self._choose(self.first())

    def first(self) -> InputSource:
        step = self.step.number()
        return Range(self.start.number() or 0.0, 1.0 if step is None else step)

    def show_source(self, source: InputSource) -> None:
        assert isinstance(source, Range)
        self.start.show_number(source.start)
        self.step.show_number(source.step)


class _FileEditor(_Editor):
    """A file of values, or a picture with its conversion."""

    def __init__(self, choose: Any, value: Value, inputs: RunInputs) -> None:
        super().__init__(choose)
        self._name = name = value.name
        self._declared, self._inputs = value.type, inputs
        self._source: File | None = None
        shown = display(name, 60) or "(unnamed)"
        self.path = QLineEdit()
        self.path.setAccessibleName(f"File for {shown}")
        self.path.setPlaceholderText(".npy .npz .pb .csv .txt or a picture")
        self.button = QToolButton()
        self.button.setIcon(icon("open"))
        self.button.setToolTip("Choose a file")
        self.button.setAccessibleName(f"Choose a file for {shown}")
        self.key = Combo(f"Array in the file for {shown}", [])
        self.image = _ImageEditor(self._set_image, shown, value.type)
        in_a_column(self, in_a_row(self.path, self.button), self.key, self.image, spacing=4)
        self.key.hide()
        self.image.hide()
        self.button.clicked.connect(self.browse)
        self.path.editingFinished.connect(self._enter)
        self.key.activated.connect(self._enter)

    def browse(self) -> None:
        """Ask for a file."""
        start = self._inputs.folder if self._source is None else self._source.path.parent
        name, _ = QFileDialog.getOpenFileName(self, "Choose values", str(start or ""), _FILES)
        if name:
            self.path.setText(name)
            self._enter()

    def _enter(self, *_: object) -> None:
        if self.path.text():
            self._choose(self.first())
        elif self._source is not None:
            self.path.setText(str(self._source.path))

    def first(self) -> InputSource:
        path = Path(self.path.text()).expanduser()
        picture = path.suffix.lower() in SUFFIXES
        key = ""
        if path.suffix.lower() == ".npz":
            self._offer_arrays(path, self.key.currentData() or self._name)
            key = self.key.currentData() or ""
        if not picture:
            return File(path, key)
        options = self.image.options
        is_new = self._source is None or self._source.path != path
        if is_new and options.size is None and declared_size(self._declared, options.layout) is None:
            shown = declared_size(self._declared, options.layout, self._inputs.symbols())
            options = replace(options, size=shown)  # few models run on the size of any picture
        return File(path, key, options)

    def _offer_arrays(self, path: Path, wanted: str) -> None:
        """List the arrays of an archive: select the wanted one, else the one named like the input, else the first."""
        try:
            names = npz_members(path)
        except ModelError:
            names = [wanted] if wanted else []  # the run reports the problem of the file
        self.key.clear()
        for name in names:
            self.key.addItem(display(name, 60), name)
        self.key.choose(wanted if wanted in names else self._name)

    def _set_image(self, _options: ImageOptions) -> None:
        self._enter()

    def show_source(self, source: InputSource) -> None:
        assert isinstance(source, File)
        self._source = source
        self.path.setText(str(source.path))
        self.path.setToolTip(plain_tip(str(source.path)))
        is_archive = source.path.suffix.lower() == ".npz"
        if is_archive:
            self._offer_arrays(source.path, source.key)
        self.key.setVisible(is_archive)
        self.image.setVisible(source.path.suffix.lower() in SUFFIXES)
        self.image.show_options(source.image or ImageOptions())


class _ImageEditor(QWidget):
    """Conversion of an image to a tensor."""

    def __init__(self, chosen: Any, name: str, declared: Type | None) -> None:
        super().__init__()
        self.options = ImageOptions()
        self._chosen = chosen
        self._declared = declared
        self._layout_box = Combo(f"Layout of {name}", [("Layout: declared", None), ("NCHW", "NCHW"), ("NHWC", "NHWC")])
        self._channels = Combo(
            f"Channels of {name}",
            [("Channels: declared", None), *((c, c) for c in ("RGB", "BGR", "L", "RGBA"))],
        )
        self._fit = Combo(f"Fit of {name}", [("Stretch", "stretch"), ("Crop", "crop"), ("Pad", "pad")])
        self._size = _line(f"Height and width of {name}", "declared")
        self._scale = NumberEdit(f"Scale of {name}", "1/255")
        self._scale.number_entered.connect(self._enter)
        self._mean = _line(f"Mean of {name}", "0")
        self._std = _line(f"Deviation of {name}", "1")
        self._preset = QPushButton("ImageNet")
        self._preset.setToolTip(wrapped("Mean and deviation of ImageNet, size 224×224 if none is declared"))
        self.problem = plain_label()
        self.problem.hide()
        self._arrange()
        for combo in (self._layout_box, self._channels, self._fit):
            combo.activated.connect(self._enter)
        for edit in (self._size, self._mean, self._std):
            edit.editingFinished.connect(self._enter)
        self._preset.clicked.connect(self._use_preset)
        for widget in (self._scale, self._mean, self._std, self._preset):
            widget.setEnabled(element_type(declared).is_float)

    def _arrange(self) -> None:
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(4)
        grid.addWidget(self._layout_box, 0, 0, 1, 2)
        grid.addWidget(self._channels, 0, 2, 1, 2)
        for row, (text, widget) in enumerate((("Size", self._size), ("Mean", self._mean)), 1):
            grid.addWidget(QLabel(text), row, 0)
            grid.addWidget(widget, row, 1)
        for row, (text, box) in enumerate((("Scale", self._scale), ("Std", self._std)), 1):
            grid.addWidget(QLabel(text), row, 2)
            grid.addWidget(box, row, 3)
        grid.addWidget(self._fit, 3, 0, 1, 2)
        grid.addWidget(self._preset, 3, 2, 1, 2)
        grid.addWidget(self.problem, 4, 0, 1, 4)

    def _use_preset(self) -> None:
        size = (224, 224) if declared_size(self._declared, self.options.layout) is None else None
        self.options = replace(
            self.options, size=size, scale=1 / 255, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
        )
        self.show_options(self.options)
        self._chosen(self.options)

    def _enter(self, *_: object) -> None:
        problem = self._refusal()
        self.problem.setText(problem)
        self.problem.setStyleSheet(f"color: {theme().error.name()};")
        self.problem.setVisible(bool(problem))
        if problem:
            return
        size = self._sizes()
        self.options = ImageOptions(
            size=(int(size[0]), int(size[-1])) if size else None,
            layout=self._layout_box.currentData(),
            channels=self._channels.currentData(),
            fit=self._fit.currentData(),
            scale=self._scale_entered(),
            mean=numbers_in(self._mean.text()) or (0.0,),
            std=numbers_in(self._std.text()) or (1.0,),
        )
        self._chosen(self.options)

    def _sizes(self) -> tuple[float, ...]:
        return numbers_in(self._size.text().replace("×", " ").replace("x", " "))

    def _scale_entered(self) -> float:
        """Return the exact previous scale unless the user changed it: the displayed one is rounded."""
        scale = self._scale.number()
        if scale is None:
            return 1 / 255
        return self.options.scale if scale == float(f"{self.options.scale:.9g}") else scale

    def _refusal(self) -> str:
        """Return the reason why a text is invalid, or "": until it is corrected, the options stay unchanged."""
        size, mean, std = self._sizes(), numbers_in(self._mean.text()), numbers_in(self._std.text())
        if self._size.text().strip() and not (1 <= len(size) <= 2 and all(x >= 1 and x.is_integer() for x in size)):
            return f"{display(self._size.text(), 40)} is not a size: expected height×width, such as 224×224"
        for name, edit, numbers in (("mean", self._mean, mean), ("deviation", self._std, std)):
            if edit.text().strip() and not (numbers and all(map(isfinite, numbers))):
                return f"{display(edit.text(), 40)} is not a {name}: expected a number for each channel"
        return "The deviation must not be 0: pixels are divided by it" if 0.0 in std else ""

    def show_options(self, options: ImageOptions) -> None:
        """Show the options."""
        self.options = options
        self.problem.hide()
        self._layout_box.choose(options.layout)
        self._channels.choose(options.channels)
        self._fit.choose(options.fit)
        self._size.setText("" if options.size is None else f"{options.size[0]}×{options.size[1]}")
        self._scale.show_number(options.scale)
        self._mean.setText(", ".join(f"{x:g}" for x in options.mean) if options.mean != (0.0,) else "")
        self._std.setText(", ".join(f"{x:g}" for x in options.std) if options.std != (1.0,) else "")
        for edit in (self._mean, self._std):
            edit.setCursorPosition(0)


def _line(name: str, hint: str) -> QLineEdit:
    """Return a line edit; `hint` describes an empty one."""
    line = QLineEdit()
    line.setPlaceholderText(hint)
    line.setAccessibleName(name)
    return line


def constant_from(text: str) -> Any:
    """Parse a number, boolean, list or text from the user; 0 for an empty text."""
    text = text.strip()
    if not text:
        return 0
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"True": True, "False": False}.get(text, text)


def numbers_in(text: str) -> tuple[float, ...]:
    """Parse a list of numbers with commas or blanks; empty if one is invalid."""
    try:
        return tuple(float(part) for part in text.replace(",", " ").split())
    except ValueError:
        return ()
