"""Tensors from CSV files, which are read twice: once for the number of rows and cells, once for the values.

Neither the text nor its cells are held as a whole: those of a file take up to 60 times its bytes.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from sys import getsizeof
from typing import IO, TYPE_CHECKING, Any, Final

from onnx_workbench.model.budget import WINDOW_TENSOR
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.mapped_arrays import array_of
from onnx_workbench.model.ir.tensors import ArrayTensor, element_count
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.elements import DecimalCommas, is_element, parse_element, parse_elements

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_TEXT: Final = 1 << 28  # bytes
_PART: Final = 1 << 18  # characters of a row that are read at once
_LONGEST_QUOTED: Final = 1 << 24  # characters of a row with quotes, which is not parted
_CELLS: Final = 1 << 16  # that are converted at once


def read_csv(
    file: Path, kind: ElementType | int, shape: tuple[int, ...] | None = None, progress: Progress = SILENT
) -> ArrayTensor:
    """Read a table of elements of a kind: a matrix, unless it has as many cells as a tensor of this shape.

    A first row without any element is one of titles. ModelError describes what is wrong with the file. Raises OSError
    too. Blocks; any thread.
    """
    size = file.stat().st_size
    if size > _MOST_TEXT:
        detail = f"{size:,} bytes; at most {_MOST_TEXT:,} are read as text."
        raise ModelError("The file is too large", detail, str(file))
    if not isinstance(kind, ElementType) or kind is ElementType.UNDEFINED:
        raise ModelError("CSV needs a type", "The tensor's element type is not known.", str(file))
    table = _Table(file, kind, progress)
    wanted = None if shape is None else element_count(shape)
    if not table.rows and wanted != 0:
        raise ModelError(f"{file.name} is empty", "It has no cells; a table of values was expected.", str(file))
    table.has_titles = table.can_have_titles and wanted != table.rows * table.width
    rows = table.rows - table.has_titles
    fitting = shape if shape is not None and wanted == rows * table.width else (rows, table.width)
    return ArrayTensor(array_of(table.pieces(), kind.numpy_dtype, fitting), kind)


class _Table:
    """The rows of a CSV file, which are checked and counted on construction. ModelError if it is not a table."""

    def __init__(self, file: Path, kind: ElementType, progress: Progress) -> None:
        self.file, self.kind, self._progress = file, kind, progress
        self.rows = self.width = 0
        self.has_titles = False
        with self._opened() as stream:
            first = stream.readline(_PART)
        self._mark = next((mark for mark in "\t;," if mark in first), ",")
        # A comma is a decimal one in many countries.
        self._is_free = self._mark != "," and kind is not ElementType.STRING
        self._commas = DecimalCommas(), DecimalCommas()  # of the first row, and of the others
        self._has_element = False  # the first row has one
        self._text_bytes = 0
        self._count()

    @property
    def can_have_titles(self) -> bool:
        """Return whether the first row is no row of elements, unlike others."""
        return self.rows > 1 and not self._has_element

    def _count(self) -> None:
        width = 0
        for cells, is_end in self._parts():
            width += len(cells)
            self._has_element = self._has_element or (not self.rows and any(is_element(c, self.kind) for c in cells))
            if self._is_free:
                self._commas[min(self.rows, 1)].add(cells)
            if self.kind is ElementType.STRING:
                self._count_texts(cells)
            if is_end:
                if self.rows and width != self.width:
                    detail = "Its rows have different numbers of cells."
                    raise ModelError(f"{self.file.name} is not a table", detail, str(self.file))
                self.rows, self.width, width = self.rows + 1, width, 0

    def _count_texts(self, cells: list[str]) -> None:
        self._text_bytes += sum(map(getsizeof, cells))
        if self._text_bytes > WINDOW_TENSOR:
            detail = f"Its strings take more than {WINDOW_TENSOR:,} bytes, up to row {self.rows + 1:,}."
            raise ModelError("The strings are too large", detail, str(self.file))

    def pieces(self) -> Iterator[NDArray[Any]]:
        """Yield the elements, flat. ModelError names the cell that is none."""
        with_points = self._is_free and DecimalCommas.are_used(self._commas[self.has_titles :])
        cells: list[str] = []
        row = done = 0
        for part, is_end in self._parts():
            if row >= self.has_titles:
                cells += [cell.replace(",", ".") for cell in part] if with_points else part
            row += is_end
            if len(cells) >= _CELLS:
                yield self._parsed(cells, done)
                done, cells = done + len(cells), []
        yield self._parsed(cells, done)

    def _parsed(self, cells: list[str], start: int) -> NDArray[Any]:
        try:
            return parse_elements(cells, self.kind)
        except ModelError:
            for number, cell in enumerate(cells, start):
                self._check(cell, number)
            raise

    def _check(self, cell: str, number: int) -> None:
        try:
            parse_element(cell, self.kind)
        except ModelError as error:
            where = f"Row {self.has_titles + number // self.width + 1}, column {number % self.width + 1}. "
            raise ModelError(error.title, where + error.detail, str(self.file)) from error

    def _opened(self) -> IO[str]:
        return self.file.open(encoding="utf-8-sig", errors="surrogateescape")

    def _parts(self) -> Iterator[tuple[list[str], bool]]:
        """Yield the cells of each row that is not empty, of a long one in parts; and whether they end the row."""
        is_end, is_first = True, True

        def texts() -> Iterator[str]:
            nonlocal is_end
            with self._opened() as stream:
                for text, is_end in self._progress.paced(self._texts(stream), 1 << 12):  # noqa: B007 - read below
                    yield text

        try:
            for cells in csv.reader(texts(), delimiter=self._mark):
                if cells or not is_first:
                    yield cells or [""], is_end
                is_first = is_end
        except csv.Error as error:
            detail = f"{str(error).capitalize()}."
            raise ModelError(f"{self.file.name} is not a table", detail, str(self.file)) from error

    def _texts(self, stream: IO[str]) -> Iterator[tuple[str, bool]]:
        """Yield the lines, long ones without quotes in parts; and whether a line ends there."""
        rest, is_parted = "", False
        while True:
            read = stream.readline(_PART)
            text = rest + read
            if read.endswith("\n") or len(read) < _PART:
                if text or is_parted:
                    yield text, True
                if not read:
                    return
                rest, is_parted = "", False
            elif '"' not in text and self._mark in text:
                text, _, rest = text.rpartition(self._mark)
                is_parted = True
                yield text, False
            elif len(text) > _LONGEST_QUOTED:
                detail = f"A row with quotes has more than {_LONGEST_QUOTED:,} characters."
                raise ModelError(f"{self.file.name} is not a table", detail, str(self.file))
            else:
                rest = text
