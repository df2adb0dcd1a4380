"""Tables in files, of names that strangers chose."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from onnx_workbench.viewer.tables.csv_file import write_csv


@pytest.mark.parametrize("name", ["=HYPERLINK(A1)", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_name_is_a_formula(tmp_path: Path, name: str) -> None:
    path = tmp_path / "table.csv"
    write_csv(path, [["what", "nodes"], [name, "1"]])
    with path.open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file))[1] == [f"'{name}", "1"]


def test_numbers_and_other_names_are_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    row = ["/conv1/Conv", "-1.5e-3", "-inf", "a=b", "", "'x"]
    write_csv(path, [row])
    with path.open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [row]
