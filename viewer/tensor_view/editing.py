"""Edits of the shown tensor: each is one edit, computed in a task when it is large."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.edits import sparse_tensors, tensors
from onnx_workbench.model.edits.initializers import RoundingReport
from onnx_workbench.model.edits.tensors import Region, TensorLocation
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.io.tensors.array_files import read_tensor, write_array
from onnx_workbench.model.io.tensors.mapped_arrays import whole_array
from onnx_workbench.model.io.tensors.proto_tensor import is_stored_outside
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, element_type_text
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, number_text, plural, shape_text
from onnx_workbench.viewer.document.deferred_action import DeferredAction
from onnx_workbench.viewer.document.messages import REFUSED
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tasks.threads import POLL_SECONDS, post_and_wait
from onnx_workbench.viewer.tensor_view.readers import TensorSlice
from onnx_workbench.viewer.workflows.apply_edits import edit_ahead

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onnx_workbench.viewer.tensor_view.tensor_source import TensorSource

Held = Tensor | SparseTensor
Refused = Callable[[ModelError], object]
Confirm = Callable[[str, Callable[[], object]], object]  # a report, and the function to call on confirmation

_AT_ONCE = 1 << 20  # bytes processed without a task, in some ms: a task would wait for a save that is being written


class TensorEditing:
    """The edits of one pane. `subject` is the shown tensor; errors are passed to `refused`, or become a message."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.subject: TensorSource | None = None

    def show_error(self, error: ModelError) -> None:
        """Show an error as a message of the document."""
        self._workspace.messages.report(error, REFUSED)

    def _target(self) -> tuple[TensorLocation, Held]:
        subject = self.subject
        if subject is None or subject.target.location is None or not isinstance(subject.held, (Tensor, SparseTensor)):
            raise ModelError(
                "This cannot be changed", "Values of a run are results. Change an input or initializer instead."
            )
        return subject.target.location, subject.held

    def _dense(self) -> tuple[TensorLocation, Tensor]:
        location, held = self._target()
        if isinstance(held, SparseTensor):
            raise ModelError("The tensor is sparse", "Make it dense first.")
        return location, held

    def _apply(
        self,
        title: str,
        location: TensorLocation,
        held: Held,
        work: Callable[[], Held],
        refused: Refused | None = None,
        then: Callable[[], object] | None = None,
    ) -> None:
        """Compute the new tensor, then set it as one edit, unless it is the same, and call `then`."""

        def done(made: Held | None) -> None:
            if made is not None:
                self._set_tensor(title, location, held, made)
            if then is not None:
                then()

        failed = partial(self._refuse, refused)
        if _cost(held) <= _AT_ONCE:
            try:
                made = _unless_equal(held, work())
            except ModelError as error:
                failed(error)
            else:
                done(made)
            return
        self._workspace.tasks.start(
            title, lambda _: _unless_equal(held, work()), done=done, failed=failed, lane="mutate", makes="edit"
        )

    def _refuse(self, refused: Refused | None, error: BaseException) -> None:
        """Report a user error where its text was typed, else as a message."""
        if isinstance(error, ModelError):
            (refused or self.show_error)(error)

    def _set_tensor(self, title: str, location: TensorLocation, held: Held, made: Held) -> None:
        """Set the new tensor as one edit; large ones are written to a temporary file first."""

        def apply(edit: Transaction) -> None:
            if tensors.tensor_at(location) is not held and not _same_constant(location, held):
                self._workspace.messages.show(
                    "warning", "The tensor has changed in the meantime", f"{title} was not applied."
                )
                return
            tensors.set_tensor_at(edit, location, made)

        edit_ahead(self._workspace, title, apply)

    def _replace(self, title: str, location: TensorLocation, made: Held) -> None:
        """Set a new tensor in place of the present one, if there still is one."""
        held = tensors.tensor_at(location)
        if held is not None:
            self._set_tensor(title, location, held, made)

    def name(self) -> str:
        """Return the tensor's name for the history."""
        subject = self.subject
        owner = subject.target.location.owner if subject is not None and subject.target.location is not None else None
        if isinstance(owner, Node):
            attribute = subject.target.location.attribute if subject is not None and subject.target.location else ""
            return display(f"{attribute} of {owner.title}" if attribute else owner.title, 60)
        return display(owner.name, 60) if isinstance(owner, Value) else "tensor"

    # -- values ----------------------------------------------------------------------------------------------

    def set_element(self, index: tuple[int, ...], text: str) -> None:
        """Set one element from text."""
        location, held = self._target()

        def work() -> Held:
            if isinstance(held, SparseTensor):
                return sparse_tensors.set_element(held, index, text)
            return tensors.set_element(held, index, text)

        where = ", ".join(map(str, index))
        self._apply(f"Set {self.name()}[{where}] to {display(text, 30)}", location, held, work)

    def fill(self, regions: Sequence[Region], text: str, refused: Refused | None = None) -> None:
        """Fill regions, or all, with one value."""
        location, held = self._target()
        part = "part of " if regions else ""
        self._apply(
            f"Fill {part}{self.name()} with {display(text, 30)}", location, held,
            lambda: _changed(held, lambda tensor: tensors.fill(tensor, regions, text)), refused,
        )  # fmt: skip

    def compute(self, regions: Sequence[Region], text: str, refused: Refused | None = None) -> None:
        """Apply an expression to regions, or to all."""
        location, held = self._target()

        def compute(tensor: Tensor) -> Tensor:
            made, rounded = tensors.compute(tensor, text, regions)
            if rounded:
                lost.append(rounded)
            return made

        lost: list[int] = []
        part = " on a part of" if regions else " on"
        title = f"Apply {display(text, 40)}{part} {self.name()}"
        name = self.name()  # another tensor may be shown when a large one is computed

        def report_rounding() -> None:
            if lost:
                detail = f"{plural(lost[0], 'result')} rounded to whole numbers."
                self._workspace.messages.show("info", f"{name} was changed", detail)

        self._apply(title, location, held, lambda: _changed(held, compute), refused, report_rounding)

    def paste(self, text: str, which: TensorSlice, row: int, column: int, *, cells: bool = False) -> None:
        """Paste a block of texts, of a spreadsheet's `cells` or any other, from a cell on; into a vector, one by
        one.
        """
        location, held = self._target()
        strings = held.element_type is ElementType.STRING
        height, width = which.size(held.shape)
        room = 1 if which.wrap else width - column
        rows = tensors.read_texts(text) if strings else tensors.read_block(text, room, cells=cells)
        count = sum(map(len, rows))
        if not count:
            self.show_error(ModelError("The clipboard holds no values", "Copy some cells first."))
            return
        if which.wrap:
            start = row * which.wrap + column
            rows = [[cell for line in rows for cell in line]]
            free = (1, held.shape[0] - start)
        else:
            start = 0
            free = (height - row, width - column)
        block = (len(rows), max(map(len, rows)))

        def work() -> Held:
            if block[0] > free[0] or block[1] > free[1]:
                detail = f"From this cell, there is room for {free[0]}×{free[1]}."
                raise ModelError(f"A block of {block[0]}×{block[1]} does not fit", detail)
            if which.wrap:
                return _changed(held, lambda tensor: tensors.paste(tensor, rows, lambda _r, c: (start + c,)))
            return _changed(
                held, lambda tensor: tensors.paste(tensor, rows, lambda r, c: which.index(row + r, column + c))
            )

        self._apply(f"Paste {plural(count, 'value')} into {self.name()}", location, held, work)

    # -- shape, type, storage --------------------------------------------------------------------------------

    def reshape(self, text: str, refused: Refused | None = None) -> None:
        """Reshape to typed dimensions: numbers with × x , or blanks between them; ``scalar`` for none."""
        location, held = self._target()
        shape = parse_shape(text, prod(held.shape))

        def work() -> Held:
            return (
                sparse_tensors.reshape(held, shape) if isinstance(held, SparseTensor) else tensors.reshape(held, shape)
            )

        self._apply(f"Change the shape of {self.name()} to {shape_text(shape)}", location, held, work, refused)

    def retype(self, kind: ElementType, confirm: Confirm) -> None:
        """Convert the element type; in case of loss, `confirm(report, resume)` is called first."""
        location, held = self._target()
        title = f"Change {self.name()} to {kind.text}"

        def work() -> tuple[Held, RoundingReport]:
            if isinstance(held, SparseTensor):
                return sparse_tensors.retype(held, kind, _cast)
            return tensors.retype(held, kind, _cast)

        def done(found: tuple[Held, RoundingReport]) -> None:
            made, report = found
            if report.changed:
                confirm(
                    loss_text(report, held.element_type, kind), lambda: self._set_tensor(title, location, held, made)
                )
            else:
                self._set_tensor(title, location, held, made)

        failed = partial(self._refuse, None)
        self._workspace.tasks.start(title, lambda _: work(), done=done, failed=failed, makes="edit")

    def store(self, *, external: bool) -> None:
        """Store in a data file next to the model, or inside it, from the next save on."""
        location, held = self._dense()
        where = "in a data file" if external else "in the model"
        self._apply(
            f"Store {self.name()} {where}", location, held, lambda: tensors.store(held, external=external)
        )  # fmt: skip

    def make_dense(self) -> None:
        """Convert to a dense tensor."""
        location, held = self._target()
        if isinstance(held, SparseTensor):
            self._apply(f"Make {self.name()} dense", location, held, lambda: sparse_tensors.to_dense(held))

    def can_be_sparse(self) -> bool:
        """Return whether the tensor may be stored as sparse: numeric constants may."""
        subject = self.subject
        if subject is None or subject.target.location is None or not isinstance(subject.held, Tensor):
            return False
        owner = subject.target.location.owner
        is_constant = isinstance(owner, Value) or (owner.op_type == "Constant" and not owner.domain)
        return is_constant and subject.element_type is not ElementType.STRING

    def make_sparse(self) -> None:
        """Convert to a sparse tensor."""
        location, held = self._dense()
        self._apply(f"Make {self.name()} sparse", location, held, lambda: sparse_tensors.to_sparse(held))

    def import_file(self, path: Path, member: str, confirm: Confirm, refused: Refused | None = None) -> None:
        """Import values from a file, with its shape and element type; `member` names an array of an archive.

        Floating-point values are converted to the floating-point type of the tensor, as nodes reject a mix of double
        and float. If shape or type change, `confirm(report, resume)` is called first.
        """
        location, held = self._target()
        kind = tensors.kind_of(held.values if isinstance(held, SparseTensor) else held)

        def made_of(read: Tensor) -> Held:
            if isinstance(held, SparseTensor):
                return sparse_tensors.from_dense(held, read)
            return tensors.remade(held, whole_array(read), tensors.kind_of(read))

        def work(progress: Progress) -> tuple[Held | None, Held | None]:
            """Return the new tensor, None if it is equal; and the unconverted one, if it was converted."""
            read = read_tensor(path, _outline(held) if isinstance(held, SparseTensor) else held, member, progress)
            if tensors.kind_of(read) is kind or not (kind.is_float and tensors.kind_of(read).is_float):
                return _unless_equal(held, made_of(read)), None
            converted = made_of(tensors.retype(read, kind, _cast)[0])
            return _unless_equal(held, converted), made_of(read)

        title = f"Import {display(path.name, 40)} into {self.name()}"

        def done(results: tuple[Held | None, Held | None]) -> None:
            made, unconverted = results
            if made is None:
                message = f"{self.name()} has the values of {display(path.name, 40)} already"
                self._workspace.messages.show("info", message, "Nothing was changed.")
            elif change := change_text(held, made):
                confirm(f"{display(path.name, 40)} has {change}.", lambda: put(made, unconverted))
            else:
                put(made, unconverted)

        def put(made: Held, unconverted: Held | None) -> None:
            self._set_tensor(title, location, held, made)
            if unconverted is not None:
                old = element_type_text(unconverted.element_type)
                message = f"{display(path.name, 40)} was converted from {old} to {kind.text}"
                keep = (f"Keep {old}", partial(self._replace, title, location, unconverted))
                self._workspace.messages.show("info", message, choices=(keep,))

        self._workspace.tasks.start(
            f"Import {path.name}",
            work,
            done=done,
            failed=partial(self._refuse, refused),
            lane="mutate",
            makes="edit",
        )

    def export(self, held: Held, path: Path, location: TensorLocation | None = None) -> None:
        """Export the values to a file; those of a sparse tensor with zeros.

        For a tensor of the model, after the edits in progress, as in a saved file. Closing waits for those too, then.
        """
        may_begin = threading.Event()

        def work(progress: Progress) -> None:
            while not may_begin.wait(POLL_SECONDS):
                progress.check()
            now = None if location is None else post_and_wait(lambda: tensors.tensor_at(location), progress)
            _write(path, held if now is None else now)

        def done(_: None) -> None:
            self._workspace.messages.show("info", f"{display(path.name, 60)} was written", str(path))

        def finished() -> None:
            if waiting is not None:
                waiting.stop()

        tasks, title = self._workspace.tasks, f"Exporting {display(path.name, 60)}"
        task = tasks.start(f"Export {path.name}", work, done=done, finished=finished, makes="file")
        waiting = None
        if location is None:
            may_begin.set()
        else:
            waiting = DeferredAction(self._workspace, title, "Do not export", may_begin.set, task.cancel)


def _write(path: Path, held: Held) -> None:
    write_array(path, sparse_tensors.to_dense(held) if isinstance(held, SparseTensor) else held)


def _cost(held: Held) -> int:
    """Return the bytes that an edit may process: for a sparse tensor, those of the dense form."""
    return max(held.nbytes, 8 * prod(held.shape)) if isinstance(held, SparseTensor) else held.nbytes


def _changed(held: Held, change: Callable[[Tensor], Tensor]) -> Held:
    """Apply an edit of dense tensors to a tensor of either kind."""
    return sparse_tensors.on_dense(held, change) if isinstance(held, SparseTensor) else change(held)


def _outline(held: SparseTensor) -> Tensor:
    """Return a dense placeholder of the same type and shape that takes no memory, for reading raw files."""
    kind = tensors.kind_of(held.values)
    return ArrayTensor(np.broadcast_to(np.zeros((), kind.numpy_dtype), held.shape), kind)


def is_outside(tensor: Tensor) -> bool:
    """Return whether the values are in a data file next to the model, or will be from the next save on."""
    return tensor.storage == "external" or is_stored_outside(tensor)


def _unless_equal(held: Held, made: Held) -> Held | None:
    return None if _is_equal(held, made) else made


def _is_equal(held: Held, made: Held) -> bool:
    """Return whether an edit changed nothing, bitwise."""
    if isinstance(held, SparseTensor) and isinstance(made, SparseTensor):
        return (
            tuple(held.shape) == tuple(made.shape)
            and _is_equal(held.values, made.values)
            and _is_equal(held.indices, made.indices)
        )
    if isinstance(held, SparseTensor) or isinstance(made, SparseTensor):
        return False
    if (held.element_type, tuple(held.shape)) != (made.element_type, tuple(made.shape)):
        return False
    if is_outside(held) != is_outside(made):
        return False
    return all(map(_are_same_bits, held.pieces(), made.pieces()))  # most differ in the first


def _are_same_bits(old: NDArray[Any], new: NDArray[Any]) -> bool:
    return bool(old.tolist() == new.tolist()) if old.dtype.kind == "O" else old.tobytes() == new.tobytes()


def _same_constant(location: TensorLocation, held: Held) -> bool:
    """Return whether a Constant's value, a new object at each access, is still the one processed."""
    now = tensors.tensor_at(location)
    if now is None or isinstance(now, SparseTensor) or isinstance(held, SparseTensor):
        return False
    if now.storage != "memory" or held.storage != "memory" or now.shape != held.shape or now.size > 1 << 16:
        return False
    return now.element_type == held.element_type and now.numpy().tolist() == held.numpy().tolist()


def _cast(array: NDArray[Any], kind: ElementType) -> NDArray[Any]:
    from onnx_workbench.exec.errors import KernelError
    from onnx_workbench.exec.kernels.shared.dtypes import cast

    try:
        return cast(array, kind.numpy_dtype)
    except KernelError as error:
        raise ModelError(f"The values cannot become {kind.text}", str(error)) from error


def parse_shape(text: str, size: int) -> tuple[int, ...]:
    """Parse a shape for a number of elements, which resolves a -1 if possible."""
    words = text.strip().strip("[]()").replace("×", " ").replace("x", " ").replace(",", " ").replace("−", "-").split()
    if words in ([], ["scalar"]):
        return ()
    try:
        shape = tuple(int(word) for word in words)
    except ValueError:
        raise ModelError("Not a shape", "Write whole numbers, such as 64×3×3; -1 is the remaining size.") from None
    product = prod(length for length in shape if length != -1)
    left = size // product if product > 0 and size % product == 0 and shape.count(-1) == 1 else -1
    return tuple(left if length == -1 else length for length in shape)


def change_text(old: Held, new: Held) -> str:
    """Describe the difference between two tensors' types, as in "shape 3×4 instead of 2×2"."""
    parts = []
    if tuple(old.shape) != tuple(new.shape):
        parts.append(f"shape {shape_text(new.shape)} instead of {shape_text(old.shape)}")
    if old.element_type != new.element_type:
        parts.append(f"type {element_type_text(new.element_type)} instead of {element_type_text(old.element_type)}")
    return " and ".join(parts)


def loss_text(report: RoundingReport, old: ElementType | int, new: ElementType) -> str:
    """Describe the loss of a type conversion."""
    changed = f"{number_text(report.changed)} of {number_text(report.total)} values change"
    text = f"{element_type_text(old)} to {new.text}: {changed}"
    if report.largest_error:
        text += f", by at most {number_text(report.largest_error, 4)}"
    if report.overflowed:
        text += f"; {number_text(report.overflowed)} {'is' if report.overflowed == 1 else 'are'} out of range"
    return text + "."
