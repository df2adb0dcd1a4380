"""The bar above two compared documents: navigation among the differences, copying, running both."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QToolButton, QWidget

from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.compare.difference_text import difference_line
from onnx_workbench.viewer.compare.model_comparison import ModelComparison
from onnx_workbench.viewer.program.settings import COMPARE_MERGED
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import themes
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.elided_label import ElidedLabel
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout

_LEAST_TOLD = 20  # least number of characters of the difference in the bar


class CompareBar(QWidget):
    """Navigation among the differences, copying, running both."""

    def __init__(self, comparing: ModelComparison) -> None:
        super().__init__()
        self._comparing = comparing
        self._row = FlowLayout(4)
        self.setLayout(self._row)
        self._row.setContentsMargins(6, 3, 6, 3)
        self.beside = self._choice("Side by side", "Show the two graphs side by side", merged=False)
        self.merged = self._choice("Merged", "Show both as one graph, with the nodes of either", merged=True)
        self.previous = self._button("↑", "Previous difference", lambda: comparing.step(-1))
        self.next = self._button("↓", "Next difference", lambda: comparing.step(1))
        self.state = ElidedLabel()
        self.state.setMinimumWidth(_LEAST_TOLD * self.fontMetrics().averageCharWidth())
        self._row.add_filling(self.state)
        self.to_left = self._button("← Copy", "Copy the selected differences to the left document", self._left)
        self.to_right = self._button("Copy →", "Copy the selected differences to the right document", self._right)
        self.run = self._button(
            "Run both", "Run both with the same inputs and list the difference of each value", self._run_both
        )
        self.follow = self._button("Sync Views", "Keep both graphs at the same position and zoom", None)
        self.follow.setCheckable(True)
        self.follow.setChecked(True)
        self.list = self._button("List", "Show the list of differences", lambda: self._trigger("panel.differences"))
        self.stop = self._button("", "Stop comparing", comparing.close)
        themes().themeChanged.connect(self._color)
        self._color()
        comparing.changed.connect(self._show)
        comparing.chosen_changed.connect(self._show)
        self._show()

    def _button(self, text: str, tip: str, run: Callable[[], object] | None) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setAutoRaise(True)
        if run is not None:
            button.clicked.connect(lambda _checked: run())
        self._row.addWidget(button)
        return button

    def _color(self) -> None:
        self.stop.setIcon(icon("close"))

    def _choice(self, text: str, tip: str, *, merged: bool) -> QToolButton:
        settings = self._comparing.new.settings
        button = self._button(text, tip, lambda: settings.set(COMPARE_MERGED, merged))
        button.setCheckable(True)
        return button

    def show_merged(self, *, is_merged: bool) -> None:
        """Show which mode is active."""
        self.beside.setChecked(not is_merged)
        self.merged.setChecked(is_merged)
        self.follow.setVisible(not is_merged)

    def _trigger(self, action: str) -> None:
        self._comparing.new.trigger(action)

    def _run_both(self) -> None:
        self._trigger("model.run_both")

    def _left(self) -> None:
        self._comparing.copy_into(self._comparing.chosen, self._comparing.old)

    def _right(self) -> None:
        self._comparing.copy_into(self._comparing.chosen, self._comparing.new)

    def _show(self) -> None:
        result, chosen = self._comparing.result, self._comparing.chosen
        differences = self._comparing.shown
        if result is None:
            text = "Comparing…"
        elif not differences:
            text = "No difference" if not result.differences else "No difference of the kinds shown"
        elif not chosen:
            text = plural(len(differences), "difference")
        else:
            text = f"{differences.index(chosen[-1]) + 1:,} of {len(differences):,}: {difference_line(chosen[-1])}"
        self.state.setText(display(text, 200))
        self.state.setToolTip(plain_tip(display(text, 1000)))
        for button in (self.previous, self.next):
            button.setEnabled(bool(differences))
        for button in (self.to_left, self.to_right):
            button.setEnabled(bool(chosen))
