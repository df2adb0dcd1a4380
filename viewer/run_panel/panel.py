"""Run panel: inputs, limits, breakpoints, and results of a run."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSignalBlocker, QSize, Qt
from PySide6.QtGui import QKeySequence, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QFormLayout,
    QHBoxLayout,
    QStyle,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.popups.file_dialogs import ask_file
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.run_panel.breakpoints import BreakpointSection
from onnx_workbench.viewer.run_panel.controls import Combo, Section, Spin, muted
from onnx_workbench.viewer.run_panel.input_row import InputRow
from onnx_workbench.viewer.run_panel.outcome import OutcomeSection
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import themes
from onnx_workbench.viewer.widgets.flow_layout import clear_layout, in_a_column
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.widgets.scrolling import scroll_area

_MEGABYTE = 1_000_000
_MOST_INPUTS, _MOST_SIZES = 100, 100
_ARCHIVE = "archive"  # all inputs from one file
ARRAY_FILES = ("Arrays (*.npz)", "All files (*)")


class RunPanel(Panel):
    """The options for a run of the document, and its buttons."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.runs = workspace.runs
        self.inputs = self.runs.inputs
        self.rows: list[InputRow] = []
        self._shown_inputs: list[object] = []
        self._build()
        self.inputs.changed.connect(self._refresh)
        self.inputs.sizes_known.connect(self._show_sizes)
        workspace.runs_changed.connect(self._show_state)
        workspace.changes.changed.connect(self._on_change)
        themes().themeChanged.connect(self._color)
        self._rebuild()
        self._color()
        self._show_state()

    def _build(self) -> None:
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(self._buttons())
        content = QWidget()
        layout = QVBoxLayout(content)
        layout.setContentsMargins(10, 8, 10, 10)
        layout.setSpacing(14)
        self._inputs_section = Section("Inputs")
        self.whole = Combo("Source of all inputs", [])
        self.whole.activated.connect(self._on_whole)
        self._sizes_section = Section("Symbolic dimensions")
        self.sizes: dict[str, Spin] = {}
        self.outcome = OutcomeSection(self.workspace)
        self.breakpoints = BreakpointSection(self.workspace)
        for section in (
            self._inputs_section, self._sizes_section, self._options(), self.breakpoints, self.outcome,
        ):  # fmt: skip
            layout.addWidget(section)
        layout.addStretch(1)
        self._content = content
        outer.addWidget(scroll_area(content), 1)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.runs.warm_up()

    def minimumSizeHint(self) -> QSize:
        """Return the width of the content; a narrower dock scrolls it sideways."""
        bar = self.style().pixelMetric(QStyle.PixelMetric.PM_ScrollBarExtent)
        return QSize(self._content.minimumSizeHint().width() + bar, super().minimumSizeHint().height())

    # -- buttons ---------------------------------------------------------------------------------------------

    def _buttons(self) -> QWidget:
        bar = QWidget()
        row = QHBoxLayout(bar)
        row.setContentsMargins(8, 6, 8, 2)
        row.setSpacing(2)
        self._action_buttons: dict[str, tuple[QToolButton, str]] = {}
        for action_id, name, title, keys in (
            ("run.run", "run", "Run", "F6"),
            ("run.stop", "stop", "Stop", "Shift+F6"),
            ("run.step", "step", "Step", "F10"),
            ("run.continue", "forward", "Continue", "F8"),
        ):
            button = _button(title, keys)
            if action_id == "run.run":
                button.setText("Run")
                button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
            button.clicked.connect(lambda _=False, chosen=action_id: self.workspace.trigger(chosen))
            self._action_buttons[action_id] = button, name
            row.addWidget(button)
        row.addStretch(1)
        self.live = QToolButton()
        self.live.setAutoRaise(True)
        self.live.setCheckable(True)
        self.live.setText("Live")
        self.live.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.live.setToolTip("Run what every edit affects")
        self.live.clicked.connect(lambda: self.workspace.trigger("run.live"))
        row.addWidget(self.live)
        self.state = muted()
        self.state.setContentsMargins(12, 0, 10, 4)
        holder = QWidget()
        in_a_column(holder, bar, self.state)
        return holder

    def _color(self) -> None:
        for button, name in self._action_buttons.values():
            button.setIcon(icon(name))
        self.live.setIcon(icon("live"))

    def _show_state(self) -> None:
        runs = self.runs
        self._action_buttons["run.stop"][0].setEnabled(runs.is_running or runs.is_paused)
        self._action_buttons["run.continue"][0].setEnabled(runs.is_paused)
        self._action_buttons["run.step"][0].setEnabled(not runs.is_running)
        self.live.setChecked(runs.live)
        self.state.setText(display(self.workspace.run_state, 120) or "Not run yet")

    # -- inputs ----------------------------------------------------------------------------------------------

    def _on_change(self, _change: object) -> None:
        if self._interface() != self._shown_inputs:
            self._rebuild()

    def _interface(self) -> list[object]:
        values = self.inputs.inputs()
        return [len(values), *((v, v.name, v.type) for v in values[:_MOST_INPUTS])]

    def _rebuild(self) -> None:
        """Rebuild the rows for changed inputs of the graph."""
        self._shown_inputs = self._interface()
        section = self._inputs_section
        self.whole.setParent(None)
        clear_layout(section.rows)
        section.add(self.whole)
        values = self.inputs.inputs()
        self.rows = [InputRow(self.inputs, value) for value in values[:_MOST_INPUTS]]
        for row in self.rows:
            section.add(row)
        if not values:
            section.add(muted("The graph takes no inputs."))
        elif len(values) > _MOST_INPUTS:
            section.add(muted(f"and {len(values) - _MOST_INPUTS} more, random"))
        self._rebuild_sizes()
        self._refresh()

    def _on_whole(self, _index: int) -> None:
        """Set all inputs from a data set or an archive, or each from its own source."""
        chosen = self.whole.currentData()
        if chosen != _ARCHIVE:
            self.inputs.set_data_set(chosen)
            return
        path = ask_file(self, self.workspace.settings, "Inputs from file", ARRAY_FILES)
        if path is not None:
            self.take_file(path)
        self._refresh()

    def take_file(self, path: Path) -> None:
        """Set the inputs from an archive of arrays; show a message if that is not possible."""
        try:
            self.inputs.set_file(path)
        except ModelError as error:
            self.workspace.messages.report(error)

    def _rebuild_sizes(self) -> None:
        section = self._sizes_section
        clear_layout(section.rows)
        self.sizes = {}
        form = QWidget()
        layout = _form(form)
        symbols = [*self.inputs.symbols().items()]
        for name, size in symbols[:_MOST_SIZES]:
            spin = Spin(f"Size of {display(name, 60)}", 0, 1_000_000_000)
            spin.setValue(size)
            spin.valueChanged.connect(lambda number, symbol=name: self.inputs.set_size(symbol, number))
            self.sizes[name] = spin
            label = plain_label(display(name, 40), wraps=False)
            font = label.font()
            font.setItalic(True)
            label.setFont(font)
            layout.addRow(label, spin)
        section.add(form)
        if len(symbols) > _MOST_SIZES:
            section.add(muted(f"and {len(symbols) - _MOST_SIZES:,} more, of their usual size"))
        section.setVisible(bool(self.sizes))
        self._order_tabs()

    def _order_tabs(self) -> None:
        """Let Tab go through inputs and sizes, made anew for each model, before the options below them."""
        before: QWidget = self.live
        for field in (self.whole, *self.rows, *self.sizes.values()):
            children = [] if isinstance(field, Spin) else field.findChildren(QWidget)
            for widget in (field, *children):
                takes_tab = widget.focusPolicy() & Qt.FocusPolicy.TabFocus
                if takes_tab and widget.window() is self.window():  # not the list of a combo box
                    QWidget.setTabOrder(before, widget)
                    before = widget

    def _options(self) -> Section:
        section = Section("Run")
        form = QWidget()
        layout = _form(form)
        self.seed = Spin("Seed", 0, 2_147_483_647)
        self.seed.setToolTip("For random inputs and random operators")
        self.memory = Spin("Max tensor size", 0, 10_000_000)
        self.memory.setSuffix(" MB")
        self.memory.setSpecialValueText("half of memory")
        self.memory.setToolTip("Nodes with a larger result fail")
        self.time = _TimeSpin()
        for text, spin in (("Seed", self.seed), ("Max tensor size", self.memory), ("Time limit", self.time)):
            layout.addRow(text, spin)
        self.outputs_only = QCheckBox("Keep outputs and watched values only")
        self.outputs_only.setToolTip(
            "Other values are freed after their last use: for models whose values do not fit into memory.\n"
            "A run with breakpoints, step by step or to a node keeps what it computes."
        )
        layout.addRow(self.outputs_only)
        self.outputs_only.toggled.connect(self.inputs.set_outputs_only)
        self.seed.valueChanged.connect(self.inputs.set_seed)
        self.memory.valueChanged.connect(lambda size: self.inputs.set_limits(memory=size * _MEGABYTE))
        self.time.valueChanged.connect(lambda seconds: self.inputs.set_limits(time=seconds))
        section.add(form)
        return section

    def _refresh(self) -> None:
        """Show the current choices."""
        inputs = self.inputs
        whole: list[tuple[str, Path | str | None]] = [("Per input", None)]
        whole += [(folder.name, folder) for folder in inputs.data_sets()]
        if inputs.data_set is not None and inputs.data_set not in [folder for _, folder in whole]:
            whole.append((inputs.data_set.name, inputs.data_set))
        if len(self.rows) > 1:
            whole.append(("From a file (.npz)…", _ARCHIVE))
        self.whole.clear()
        for text, folder in whole:
            self.whole.addItem(text, folder)
        self.whole.choose(inputs.data_set)
        self.whole.setVisible(len(whole) > 1)
        for row in self.rows:
            row.refresh()
            row.setEnabled(inputs.data_set is None)
        self._show_sizes()
        _show(self.seed, inputs.seed)
        _show(self.memory, inputs.max_tensor // _MEGABYTE)
        with QSignalBlocker(self.time), QSignalBlocker(self.outputs_only):
            self.time.setValue(inputs.time_limit)
            self.outputs_only.setChecked(inputs.outputs_only)

    def _show_sizes(self) -> None:
        sizes = self.inputs.symbols()
        for name, spin in self.sizes.items():
            _show(spin, sizes.get(name, 1))


class _TimeSpin(QDoubleSpinBox):
    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Time limit")
        self.setRange(0, 1_000_000)
        self.setDecimals(1)
        self.setSuffix(" s")
        self.setSpecialValueText("none")
        self.setKeyboardTracking(False)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)


def _button(title: str, keys: str) -> QToolButton:
    button = QToolButton()
    button.setAutoRaise(True)
    button.setIconSize(QSize(16, 16))
    shortcut = QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)
    button.setToolTip(f"{title} ({shortcut})")
    button.setAccessibleName(title)
    return button


def _form(holder: QWidget) -> QFormLayout:
    layout = QFormLayout(holder)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setVerticalSpacing(4)
    layout.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    layout.setLabelAlignment(Qt.AlignmentFlag.AlignLeft)
    return layout


def _show(spin: Spin, number: int) -> None:
    with QSignalBlocker(spin):
        spin.setValue(number)
