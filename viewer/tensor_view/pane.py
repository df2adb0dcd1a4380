"""Pane for one tensor: description, numbers, and a view of its values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QModelIndex, QSignalBlocker, QSize, QTimer, Signal
from PySide6.QtGui import QContextMenuEvent, QResizeEvent
from PySide6.QtWidgets import (
    QSizePolicy,
    QSplitter,
    QStackedWidget,
    QToolButton,
    QWidget,
)

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.plots.line_plot import LinePlot
from onnx_workbench.viewer.plots.matrix_view import MatrixImage, MatrixView, Part
from onnx_workbench.viewer.plots.plot import load_pyqtgraph
from onnx_workbench.viewer.style.choices import choice_title
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import monospace, theme, themes
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tensor_view import feature_maps, pictures
from onnx_workbench.viewer.tensor_view.custom_view import CustomView, show_whole
from onnx_workbench.viewer.tensor_view.editing import TensorEditing
from onnx_workbench.viewer.tensor_view.header import PaneHeader
from onnx_workbench.viewer.tensor_view.menu import TensorMenu
from onnx_workbench.viewer.tensor_view.pictures import PictureRequest
from onnx_workbench.viewer.tensor_view.prompt_bar import PromptBar
from onnx_workbench.viewer.tensor_view.readers import DifferenceReader, Reader, TensorSlice, first_slice
from onnx_workbench.viewer.tensor_view.small_widgets import button, combo, notice_label, text_label, text_view
from onnx_workbench.viewer.tensor_view.statistics_column import StatisticsPane
from onnx_workbench.viewer.tensor_view.table import PartLabel, TensorTable
from onnx_workbench.viewer.tensor_view.tensor_source import (
    TensorCandidate,
    TensorSource,
    hint_of,
    likeliest,
    reader_of,
    resolve,
    shows_same,
)
from onnx_workbench.viewer.tensor_view.value_tree import ValueTree, plane_text
from onnx_workbench.viewer.tensor_view.view_kinds import MOSAICS, View, first_view, seen_at_once, views_of
from onnx_workbench.viewer.tensor_view.view_options import ViewOptions
from onnx_workbench.viewer.widgets.flow_layout import in_a_column

if TYPE_CHECKING:
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.run.workspace import Workspace
    from onnx_workbench.viewer.tasks.tasks import Task

_NARROW = 420  # px: below this the description is abbreviated
_FACTS = 250  # px: initial maximum width of the statistics
_MODES = ("Value", "Before", "Difference")
_COMPARED_MODES = ("This", "Other", "Difference")  # while a comparison is loaded
_READING = "Reading…"
_AT_ONCE = 1 << 16  # bytes read without a task
_SLOW = 150  # ms, after which a view of outdated values is replaced by a message
_PICTURES: tuple[View, ...] = ("Heat map", "Image", *MOSAICS)


class TensorPane(QWidget):
    """Shows a tensor. Nothing here waits for a file: reading and counting are tasks."""

    pin_wanted = Signal()
    sliced = Signal(object)  # Slice: the user chose another plane
    moved = Signal(object)  # zoom and position of an image

    def __init__(self, workspace: Workspace, *, pinned: bool = False) -> None:
        super().__init__()
        self.workspace = workspace
        self.pinned = pinned
        self.editing = TensorEditing(workspace)
        self.subject: TensorSource | None = None
        self._targets: list[TensorCandidate] = []
        self._reader: Reader | None = None
        self._awaited: Reader | None = None  # the one opened last
        self._chosen_views: dict[tuple[object, ...], View] = {}  # by the subjects they were chosen for
        self._shown: tuple[object, ...] = (None,)  # of the subject; () for none, and not yet that
        self._mode = 0  # as chosen; in effect if there is a previous run
        self._drawn: tuple[object, ...] = ()  # subject and view drawn last
        self._drawing: Task[Any] | None = None  # the one started last
        self._slow = QTimer(self, singleShot=True, interval=_SLOW)
        self._slow.timeout.connect(self._show_waiting)
        self._make_header()
        self._make_body()
        self.ask = PromptBar(self)
        in_a_column(self, self._header, self.splitter, self.ask, fills=self.splitter)
        themes().themeChanged.connect(self._color)
        self._color()
        self.show_targets([])

    # -- made once -------------------------------------------------------------------------------------------

    def _make_header(self) -> None:
        self.title = text_label("Name", bold=True)
        self.type_line = text_label("Type, shape and size")
        self.storage = text_label("Where it is stored")
        self.badge = text_label("Notes")
        self.target_box = combo("Which tensor of the node", self._on_target)
        self.view_box = combo("View", self._on_view)
        self.mode_box = combo("This value, the other one, or the difference", self.choose_mode)
        self.mode_box.addItems(_MODES)
        for box in (self.mode_box, self.view_box):  # the name of the tensor, which elides, gives way first
            box.setMinimumWidth(0)
            box.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)
        self.menu_button = button("More…", "more", "Edit, import, export and copy")
        self.menu = TensorMenu(self)
        self.menu_button.setMenu(self.menu)
        self.menu_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.pin_button = button(
            "Unpin" if self.pinned else "Pin",
            "close" if self.pinned else "pin",
            "Close this copy" if self.pinned else "Keep a copy beside, to compare",
        )
        self.pin_button.clicked.connect(self.pin_wanted)
        self._header = PaneHeader(
            [self.title, self.type_line, self.storage, self.badge],
            [self.target_box, self.mode_box, self.view_box, self.menu_button, self.pin_button],
        )

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if self.menu_button.isEnabled():
            self.menu.popup(event.globalPos())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.updateGeometry()
        self._show_header()
        self._show_facts(shown=not self.facts.isHidden())

    def minimumSizeHint(self) -> QSize:
        """Include all lines that text and controls take at this width, or the view would be cut off below."""
        hint = super().minimumSizeHint()
        lines = (self._header, self.options)
        more = sum(max(0, w.heightForWidth(w.width()) - w.minimumSizeHint().height()) for w in lines)
        return QSize(hint.width(), hint.height() + more)

    def _show_facts(self, *, shown: bool) -> None:
        if self.pinned:  # where they are closed at first
            return
        self.facts.setVisible(shown)
        if not self._is_divided:
            facts = min(_FACTS, int(0.43 * self.width()))
            self.splitter.setSizes([facts, self.width() - facts])

    def _make_body(self) -> None:
        self.options = ViewOptions()
        self.options.option_changed.connect(self._show_view)
        self.options.format_chosen.connect(self._on_format)
        self.options.weight_chosen.connect(self._show_weight)
        self.slices = self.options.slices
        self.slices.changed.connect(self._on_slice)
        self._make_views()
        self._lay_out_body()

    def _make_views(self) -> None:
        self.stack = QStackedWidget()
        self.table = TensorTable(self.workspace.tasks)
        self.table.cells.refused.connect(self.editing.show_error)
        self.table.pasted.connect(self._on_paste)
        self.table.selectionModel().currentChanged.connect(self._on_cell)
        self.table.fill_wanted.connect(lambda: self.menu.ask_fill("0"))
        self.options.add(PartLabel(self.table))
        self.picture = MatrixView()
        self.picture.viewed.connect(self.moved)
        self.picture.detail_wanted.connect(self._refine)
        self.picture.element_chosen.connect(self._choose_element)
        self.lines = LinePlot()
        self.lines.element_chosen.connect(self._choose_element)
        self.options.log.toggled.connect(self.lines.set_logarithmic)
        self.text = text_view("Values as text")
        self.custom = CustomView()
        self.tree = ValueTree()
        self.notice = notice_label()
        shown: QWidget
        for shown in (self.notice, self.table, self.picture, self.lines, self.text, self.custom, self.tree):
            self.stack.addWidget(shown)

    def _lay_out_body(self) -> None:
        right = QWidget()
        in_a_column(right, self.options, self.stack, fills=self.stack)
        self.facts = StatisticsPane()
        self.facts.element_wanted.connect(self.go_to)
        self.splitter = QSplitter()
        self.splitter.addWidget(self.facts)
        self.splitter.addWidget(right)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setSizes([0 if self.pinned else _FACTS, 900])
        self._is_divided = False  # by the user
        self.splitter.splitterMoved.connect(self._on_divided)
        self.splitter.setCollapsible(1, False)

    def _on_divided(self) -> None:
        self._is_divided = True

    def _color(self) -> None:
        colors = theme()
        for label, color in ((self.type_line, colors.text), (self.storage, colors.muted), (self.badge, colors.warning)):
            palette = label.palette()
            palette.setColor(label.foregroundRole(), color)
            label.setPalette(palette)
        self.type_line.setFont(monospace())
        self.text.setFont(monospace())
        self.menu_button.setIcon(icon("more"))
        self.pin_button.setIcon(icon("close" if self.pinned else "pin"))
        self.table.viewport().update()

    # -- content ---------------------------------------------------------------------------------------------

    def show_item(self, item: object) -> None:
        """Show the most likely tensor of a selected object, with a choice of others."""
        self.show_targets(likeliest(self.workspace, item))

    def show_targets(self, targets: list[TensorCandidate]) -> None:
        """Set the choices, and show the first one."""
        keys = [t.key for t in targets]
        same = keys == [t.key for t in self._targets]  # else another object was selected: its most likely tensor first
        current = self.subject.target.key if self.subject is not None and same else None
        self._targets = targets
        titles = [target.title for target in targets]
        if not same or titles != [self.target_box.itemText(i) for i in range(self.target_box.count())]:
            with QSignalBlocker(self.target_box):
                self.target_box.clear()
                self.target_box.addItems(titles)
                if current in keys:
                    self.target_box.setCurrentIndex(keys.index(current))
        self.target_box.setVisible(len(targets) > 1)
        self.refresh()

    @property
    def reader(self) -> Reader | None:
        """Return the reader of the shown values; None while there are none."""
        return self._reader

    @property
    def target(self) -> TensorCandidate | None:
        """The choice shown."""
        index = self.target_box.currentIndex()
        return self._targets[index] if 0 <= index < len(self._targets) else None

    def _on_target(self, _index: int) -> None:
        self.refresh()

    def refresh(self) -> None:
        """Refresh; keeps plane, view and zoom."""
        target = self.target
        if target is None and not self._shown:
            return  # nothing, as before: every edit and every run comes here
        subject = resolve(self.workspace, target) if target is not None else None
        mode = self._offer_modes(subject)
        if subject is not None and mode == 1:
            subject = subject.as_other()
        shown = () if subject is None else (
            subject.target.key, subject.held, subject.other if mode else None, mode, subject.waiting, subject.problem,
        )  # fmt: skip
        old = self.subject
        self.subject = self.editing.subject = subject
        self._show_header()
        if shows_same(shown, self._shown):
            return
        self._shown = shown
        another = old is None or subject is None or old.target.key != subject.target.key
        outdated = self.ask.is_confirming and old is not None and subject is not None and old.held is not subject.held
        if self.ask.isVisible() and (another or outdated):  # it describes other values
            self.ask.close_line()
        if another:
            self.table.cells.show(None, None)
        elif self._is_about_to_change(subject):
            self._slow.start()  # in Live it arrives at once: the old view stays till then
            return
        self._open(subject, mode)

    def _offer_modes(self, subject: TensorSource | None) -> int:
        """Set the modes that a value has; return the one shown."""
        count, names = (1, _MODES) if subject is None else (
            subject.modes, _COMPARED_MODES if subject.is_compared else _MODES
        )  # fmt: skip
        mode = self._mode if self._mode < count else 0
        with QSignalBlocker(self.mode_box):
            if count > 1 and names[:count] != tuple(self.mode_box.itemText(i) for i in range(self.mode_box.count())):
                self.mode_box.clear()
                self.mode_box.addItems(names[:count])
            self.mode_box.setCurrentIndex(mode)
            self.mode_box.setVisible(count > 1)
        return mode

    def _is_about_to_change(self, subject: TensorSource | None) -> bool:
        """Return whether a newer, similar value will replace the visible one."""
        reader = self._reader
        return reader is not None and subject is not None and subject.waiting and reader.shape == subject.shape

    def _show_header(self) -> None:
        subject = self.subject
        self._header.setVisible(self.pinned or subject is not None)
        name = subject.target.name if subject is not None else ""
        self.title.setText(display(name, 48))
        self.title.setVisible(len(self._targets) < 2)  # else the choice among them has it
        self.title.setToolTip(plain_tip(display(name, 500)))
        line = subject.type_line if subject is not None else ""
        self.type_line.setText(line.split(" · ")[0] if self.width() < _NARROW else line)
        self.type_line.setToolTip(plain_tip(line))
        self.storage.setText(subject.storage if subject is not None else "")
        self.storage.setToolTip(plain_tip(self.storage.text()))
        remarks = [] if subject is None else [
            "so far: the run goes on" if subject.so_far else "",
            "out of date: edited since the run" if subject.stale else "",
            subject.mismatch,
        ]  # fmt: skip
        self.badge.setText(" · ".join(r for r in remarks if r))
        self.badge.setToolTip(plain_tip(self.badge.text()))
        self.menu_button.setEnabled(subject is not None and subject.kind in ("tensor", "sparse"))
        self.pin_button.setEnabled(self.pinned or subject is not None)
        if self.pinned:
            self.pin_button.setAccessibleName(f"Unpin {self.title.text()}")
        self._fit_header()

    def _fit_header(self) -> None:
        self._header.fit(self.subject.target.key if self.subject is not None else None, self.width())

    def _open(self, subject: TensorSource | None, mode: int) -> None:
        """Create a reader, prepare it, then show."""
        self._reader = self._awaited = None
        self._slow.stop()
        self._offer_views(subject)
        if subject is None or subject.kind == "none" or subject.problem or subject.waiting:
            self._show_notice(hint_of(subject))
            return
        if subject.kind == "tree":
            self.slices.show_shape(())
            self.facts.clear("")
            self._show_facts(shown=False)
            self.table.cells.show(None, None)
            self.tree.show_value(subject.held)
            self._show_options("Tree")
            self.stack.setCurrentWidget(self.tree)
            return
        try:
            reader = subject.reader()
            if mode == 2:
                reader = DifferenceReader(reader, reader_of(subject.other))
            self._show_facts(shown=True)
            self._awaited = reader
            if reader.instant or (subject.kind == "tensor" and subject.nbytes <= _AT_ONCE):
                reader.prepare()
                self._ready(reader)
                return
        except ModelError as error:
            self._show_notice(f"{error.title}: {error.detail}")
            return
        self._show_notice(_READING)
        self.workspace.tasks.start(
            "Reading a tensor",
            lambda _: reader.prepare(),
            done=lambda _: self._ready(reader),
            failed=partial(self._failed, reader),
            finished=lambda: self._reading_ended(reader),
            supersede=f"tensor {id(self)} read",
        )

    def _show_notice(self, text: str) -> None:
        self._slow.stop()
        self.notice.setText(display(text, 600, keep_lines=True))
        self.stack.setCurrentWidget(self.notice)
        self.table.cells.show(None, None)
        self.slices.hide()
        self._show_options(None)
        self.facts.clear("")
        self._show_facts(shown=self.subject is not None and not self.subject.problem)

    def _failed(self, reader: Reader, error: BaseException) -> None:
        if reader is self._awaited and isinstance(error, ModelError):
            self._show_notice(f"{error.title}: {error.detail}")

    def _reading_ended(self, reader: Reader) -> None:
        if reader is self._awaited and self._reader is None and self.notice.text() == _READING:
            self._show_notice("Stopped. Select the value again to load it.")

    def _ready(self, reader: Reader) -> None:
        if reader is not self._awaited:
            return  # something else is shown by now
        self._reader = reader
        self.slices.show_shape(reader.shape)
        self.table.delegate.element_type = reader.element_type
        editable = self.subject is not None and self.subject.editable and not self.mode_box.currentIndex()
        self.table.cells.commit = self.editing.set_element if editable else None
        self.table.set_metrics()
        same = self._shown[0], self.mode_box.currentIndex(), reader.shape
        self.facts.count(reader, self.workspace.tasks, same)
        self._show_view()

    # -- views -----------------------------------------------------------------------------------------------

    def _offer_views(self, subject: TensorSource | None) -> None:
        offered = views_of(subject) if subject is not None else ()
        chosen = self._chosen_views.get(() if subject is None else subject.likeness)
        wanted = chosen if chosen in offered else first_view(subject) if subject is not None else None
        with QSignalBlocker(self.view_box):
            if offered != tuple(self.view_box.itemData(i) for i in range(self.view_box.count())):  # else it is laid out
                self.view_box.clear()
                for view in offered:
                    self.view_box.addItem(choice_title(view), view)
            if wanted is not None:
                self.view_box.setCurrentIndex(self.view_box.findData(wanted))
        self.view_box.setVisible(len(offered) > 1)
        self._fit_header()

    @property
    def view(self) -> View | None:
        """Return the kind of view."""
        view: View | None = self.view_box.currentData()
        return view

    def choose_view(self, view: View) -> None:
        """Change the kind of view, if applicable."""
        if self.view_box.findData(view) >= 0:
            self.view_box.setCurrentIndex(self.view_box.findData(view))
            self._on_view(0)

    def _on_view(self, _index: int) -> None:
        if self.view is not None and self.subject is not None:
            self._chosen_views[self.subject.likeness] = self.view
        self._show_view()

    def _show_options(self, view: View | None) -> None:
        self.options.show_for(view, numbers=self._is_number)

    @property
    def _is_number(self) -> bool:
        return self._reader is not None and self._reader.element_type is not ElementType.STRING

    def _show_view(self) -> None:
        """Fill the chosen view; one that reads many values does so in a task."""
        reader, view, which = self._reader, self.view, self.slices.slice
        if reader is None or view is None:
            return
        self._settle()
        self._show_options(view)
        whole = seen_at_once(view, reader.shape, which)
        self.slices.show_whole(whole)
        is_paged = view in MOSAICS and whole is not None and bool(reader.size)
        self.options.show_pages(feature_maps.page_count(reader.shape, whole) if is_paged and whole is not None else 1)
        heads = reader.shape[whole] if view == "Attention" and is_paged and whole is not None else None
        self.options.show_heads(None if heads is None else (heads, *which.size(reader.shape)))
        if not reader.size:
            self.notice.setText("It has no elements.")
            self.stack.setCurrentWidget(self.notice)
            return
        if view == "Table":  # of the same size it keeps the element in editing, and so the focus
            self.table.cells.show(reader, which)
            self.stack.setCurrentWidget(self.table)
            return
        self.table.cells.show(None, None)
        widget, work, show = self._drawing_of(view, reader, which)
        drawing = (self._shown[0], view, self.mode_box.currentIndex())

        def done(result: Any) -> None:
            if self._reader is reader and self.view == view and self.slices.slice == which:
                self._settle()
                self._drawn = drawing
                show(result)
                if view == "Attention":
                    self._show_weight(self.options.query.value(), self.options.key.value())
                self.stack.setCurrentWidget(widget)

        def finished() -> None:
            if task.cancelled and self._drawing is task and self._reader is reader and drawing != self._drawn:
                self._settle()
                self._show_drawing_notice("Stopped. Choose the view again to draw it.")

        if drawing != self._drawn and not self._is_old:
            self._slow.start()
        task = self._drawing = self.workspace.tasks.start(
            "Drawing a tensor", work,
            done=done, failed=partial(self._failed, reader), finished=finished, supersede=f"tensor {id(self)} draw",
        )  # fmt: skip

    def _drawing_of(
        self, view: View, reader: Reader, which: TensorSlice
    ) -> tuple[QWidget, Callable[[Progress], Any], Any]:
        """Return the widget of a view, the task that computes its content, and the setter."""
        if view in _PICTURES:
            draw = partial(_PICTURE_WORK[view], reader, which, self._picture_request)
            return self.picture, draw, self.picture.show_picture
        if view == "Lines":  # which may read all of a vector

            def show(found: pictures.Series) -> None:
                self.lines.show_lines(found.positions, found.lines, found.note, found.index)

            def read(progress: Progress) -> pictures.Series:
                load_pyqtgraph()  # here rather than when the lines are first shown, on the GUI thread
                return pictures.series(reader, which, progress)

            return self.lines, read, show
        if view == "Text":
            return self.text, lambda _: plane_text(reader, which), self.text.setPlainText
        return self.custom, lambda _: show_whole(view, reader), self.custom.show_result

    @property
    def _is_old(self) -> bool:
        """Return whether the visible values are outdated and newer ones are coming."""
        return self.subject is not None and self.subject.waiting

    def _settle(self) -> None:
        """Cancel the replacement by a message, unless newer values are coming: another plane of old ones is old."""
        if not self._is_old:
            self._slow.stop()

    def _show_waiting(self) -> None:
        """Show that the visible values do not belong to the description above them."""
        if self.subject is not None and self.subject.waiting:
            self._drawn = ()
            self._open(self.subject, 0)
            return
        self._show_drawing_notice("Drawing…")

    def _show_drawing_notice(self, text: str) -> None:
        self._drawn = ()
        self.notice.setText(text)
        self.stack.setCurrentWidget(self.notice)

    def _refine(self, part: Part) -> None:
        """Refine the visible part of a sampled image."""
        picture, reader = self.picture.picture, self._reader
        if reader is None or picture is None or picture.detail is None:
            return

        def done(found: MatrixImage) -> None:
            if self.picture.picture is picture:
                self.picture.show_detail(found)

        make = picture.detail
        self.workspace.tasks.start(
            "Drawing a tensor", lambda _: make(part),
            done=done, failed=partial(self._failed, reader), supersede=f"tensor {id(self)} detail",
        )  # fmt: skip

    @property
    def _picture_request(self) -> PictureRequest:
        request = self.options.request(differences=self.mode_box.currentIndex() == 2)
        return replace(request, aspect=self.stack.width() / max(self.stack.height(), 1))

    def _show_weight(self, query: int, key: int) -> None:
        """Mark a weight of the attention of one head; its description is below the picture."""
        if self._picture_request.plane is not None:
            self.picture.show_cell(query, key)

    def _on_slice(self, which: TensorSlice) -> None:
        self._show_view()
        self.sliced.emit(which)

    def show_slice(self, which: TensorSlice) -> None:
        """Show the plane of a linked pane, if there is a matching one."""
        if self._reader is not None and len(self._reader.shape) == len(which.fixed):
            self.slices.show_shape(self._reader.shape, which)
            self._show_view()

    def _on_cell(self, index: QModelIndex) -> None:
        if index.isValid() and self._reader is not None:
            self._choose_element(self.table.cells.element(index))

    def _choose_element(self, index: tuple[int, ...]) -> None:
        """Handle the choice of an element: for run values its origin can be shown."""
        subject, results = self.subject, self.workspace.results
        if subject is None or subject.target.value is None or subject.kind != "tensor":
            return
        info = results.info_of(subject.target.value)
        if info is not None and info.shape == subject.shape:  # the previous run's value may lack it
            results.choose_element(subject.target.value, index)

    def choose_mode(self, mode: int) -> None:
        """Choose the value (0), that of the previous run (1), or the difference (2), if there is a previous run."""
        self._mode = mode
        self.refresh()
        if mode != self.mode_box.currentIndex() and not (self.subject and self.subject.may_be_comparable):
            self._mode = 0
            title, detail = "No previous value", "Run the model twice to compare."
            if self.workspace.results.reference is not None:
                title, detail = "There is no other value", "The comparison has none that corresponds to this one."
            if self.subject is not None and self.subject.modes > 1:
                title, detail = "There is no difference", "The two values differ in shape or are not numeric."
            self.workspace.messages.show("info", title, detail)

    def _on_format(self, text: str) -> None:
        self.table.cells.set_format(text)
        self.table.set_metrics()

    def go_to(self, index: tuple[int, ...]) -> None:
        """Show an element in the table."""
        if self._reader is None or not self._reader.shape:
            return
        shown = self.slices.slice if self.slices.slice.fixed else first_slice(self._reader.shape)
        if not shown.wrap:
            self.slices.set_slice(shown.through(index))
        self.choose_view("Table")
        self.sliced.emit(self.slices.slice)
        self.table.show_element(index)
        self.table.setFocus()

    # -- edits -----------------------------------------------------------------------------------------------

    def _on_paste(self, text: str, row: int, column: int, cells: bool) -> None:
        which = self.table.cells.slice
        if which is not None:
            self.editing.paste(text, which, row, column, cells=cells)


_PICTURE_WORK: dict[str, Any] = {
    "Heat map": pictures.heatmap,
    "Feature maps": feature_maps.mosaic,
    "Attention": partial(feature_maps.mosaic, attention=True),
    "Image": pictures.image,
}
