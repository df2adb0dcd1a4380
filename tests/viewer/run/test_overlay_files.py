"""Files of numbers per node: the forms that people have, and what is said of others."""

import json
import os

import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.run.overlays import read_numbers


@pytest.mark.parametrize(
    "text",
    [
        "conv,1.5\nfc,2\n",
        "name,number,more\nconv,1.5,x\nfc,2,y\n",
        "Name;Zahl\r\nconv;1,5\r\nfc;2\r\n",
        "conv\t1.5\n\nfc\t2\n",
        "\ufeffconv,1.5\nalone\nfc,2\nbad,inf\n",
        "conv,1.5\rfc,2\r",
    ],
    ids=["commas", "heading", "semicolons", "tabs", "odd lines", "carriage returns"],
)
def test_columns(tmp_path, text):
    path = tmp_path / "numbers.csv"
    path.write_bytes(text.encode())
    assert read_numbers(path).numbers == {"conv": 1.5, "fc": 2.0}


@pytest.mark.parametrize(
    ("name", "text", "title", "others"),
    [
        ("t.csv", "node,Time (ms),more\nconv,1.5,x\nfc,-,y\nend,inf\n", "Time (ms)", {"fc": "-", "end": "inf"}),
        ("t.csv", "conv,1.5\nfc,\n", "", {"fc": ""}),
        ("t.csv", "conv,nan\nfc,2\n", "", {"conv": "nan"}),
        ("t.csv", "Name;Zeit\nfc;2,5\n", "Zeit", {}),
        ("t.json", '[["node", "ms"], ["conv", 1], ["fc", "x"]]', "ms", {"fc": "x"}),
        ("t.json", '{"conv": "x", "fc": 1}', "", {"conv": "x"}),
    ],
)
def test_the_heading_of_the_numbers_is_known_and_what_is_no_number(tmp_path, name, text, title, others):
    path = tmp_path / name
    path.write_text(text)
    read = read_numbers(path)
    assert (read.title, dict(read.others)) == (title, others)


def test_a_semicolon_in_a_name_divides_nothing_where_commas_do(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("a;b,1\nc;d,2\n")
    assert read_numbers(path).numbers == {"a;b": 1.0, "c;d": 2.0}


def test_names_may_have_lines_in_quotes_and_marks_that_divide_lines_elsewhere(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_bytes('"two\nlines",1\nodd\u2028name,2\n'.encode())
    assert read_numbers(path).numbers == {"two\nlines": 1.0, "odd\u2028name": 2.0}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "conv,1\nfc,2\nfc,2\nconv,3\nconv,4\n"),
        ("t.json", '[["conv", 1], ["fc", 2], ["fc", 2], ["conv", 4]]'),
        ("t.json", '{"conv": 1, "fc": 2, "fc": 2, "conv": 4}'),
    ],
)
def test_names_that_have_several_numbers_are_known(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    read = read_numbers(path)
    assert (read.numbers, read.repeated) == ({"conv": 4.0, "fc": 2.0}, ["conv"])


@pytest.mark.parametrize("content", [{"conv": 1.5, "fc": 2}, [["conv", 1.5], ["fc", "2", "x"], ["odd"], 3, None]])
def test_json(tmp_path, content):
    path = tmp_path / "numbers.json"
    path.write_text(json.dumps(content))
    assert read_numbers(path).numbers == {"conv": 1.5, "fc": 2.0}


@pytest.mark.parametrize("content", [[{"name": "conv", "number": 3}], {"conv": {"time": 3}}, 5, None, [], {}, [[1]]])
def test_json_of_another_form_is_refused_with_the_expected_one(tmp_path, content):
    path = tmp_path / "numbers.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match="was expected"):
        read_numbers(path)


@pytest.mark.parametrize("data", [b"", b"one\ntwo\n", b"\xff\xfe", b"[" * 100_000, b"a," + b"1" * 400])
@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_what_is_damaged_or_has_no_numbers_is_a_message(tmp_path, data, suffix):
    path = tmp_path / f"numbers{suffix}"
    path.write_bytes(data)
    with pytest.raises(ModelError, match="has no numbers per node"):
        read_numbers(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_what_may_never_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "numbers.csv")
    with pytest.raises(ModelError, match="not a regular file"):
        read_numbers(tmp_path / "numbers.csv")
