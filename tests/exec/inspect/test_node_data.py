"""Files of numbers per node: the forms that people have, and what is said of others."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_workbench as ow
from onnx_workbench.exec.inspect.node_data import difference, match, matched, node_data, read_node_data
from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.cli.main import main


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
    assert read_node_data(path).numbers == {"conv": 1.5, "fc": 2.0}


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
    read = read_node_data(path)
    assert (read.title, dict(read.others)) == (title, others)


def test_a_semicolon_in_a_name_divides_nothing_where_commas_do(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("a;b,1\nc;d,2\n")
    assert read_node_data(path).numbers == {"a;b": 1.0, "c;d": 2.0}


def test_names_may_have_lines_in_quotes_and_marks_that_divide_lines_elsewhere(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_bytes('"two\nlines",1\nodd\u2028name,2\n'.encode())
    assert read_node_data(path).numbers == {"two\nlines": 1.0, "odd\u2028name": 2.0}


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
    read = read_node_data(path)
    assert (read.numbers, read.repeated) == ({"conv": 4.0, "fc": 2.0}, ["conv"])


@pytest.mark.parametrize("content", [{"conv": 1.5, "fc": 2}, [["conv", 1.5], ["fc", "2", "x"], ["odd"], 3, None]])
def test_json(tmp_path, content):
    path = tmp_path / "numbers.json"
    path.write_text(json.dumps(content))
    assert read_node_data(path).numbers == {"conv": 1.5, "fc": 2.0}


@pytest.mark.parametrize("content", [[{"name": "conv", "number": 3}], {"conv": {"time": 3}}, 5, None, [], {}, [[1]]])
def test_json_of_another_form_is_refused_with_the_expected_one(tmp_path, content):
    path = tmp_path / "numbers.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match="was expected"):
        read_node_data(path)


@pytest.mark.parametrize("data", [b"", b"one\ntwo\n", b"\xff\xfe", b"[" * 100_000, b"a," + b"1" * 400])
@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_what_is_damaged_or_has_no_numbers_is_a_message(tmp_path, data, suffix):
    path = tmp_path / f"numbers{suffix}"
    path.write_bytes(data)
    with pytest.raises(ModelError, match="has no data per node"):
        read_node_data(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_what_may_never_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "numbers.csv")
    with pytest.raises(ModelError, match="not a regular file"):
        read_node_data(tmp_path / "numbers.csv")


def sample():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv1"),
        helper.make_node("Relu", ["c"], ["r"], name="relu1"),
        helper.make_node("Sigmoid", ["r"], ["s"]),
        helper.make_node("Add", ["s", "r"], ["y"], name="add1"),
    ]
    weight = numpy_helper.from_array(np.full((8, 3, 3, 3), 0.1, np.float32), "w")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 6, 6])],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def by_operator(found):
    return {node.op_type: value for node, value in found.values.items()}


def read_json(tmp_path, content):
    path = tmp_path / "data.json"
    path.write_text(json.dumps(content))
    return read_node_data(path)


def test_texts_are_categories_where_nothing_is_a_number(tmp_path):
    path = tmp_path / "devices.csv"
    path.write_text("node,device\nconv1,GPU\ns,CPU\nother,<b>CPU</b>\n")
    found = match(ow.load(sample()), read_node_data(path))
    assert (by_operator(found), found.title) == ({"Conv": "GPU", "Sigmoid": "CPU"}, "device")
    assert found.summary() == "2 of 3 names match; not in the model: other"


@pytest.mark.parametrize("wrap", [lambda results: results, lambda results: {"main_graph": results}])
def test_node_data_of_model_explorer(tmp_path, wrap):
    results = {"results": {"conv1": {"value": 2.5, "bgColor": "red"}, "y": {"value": 1}}, "gradient": []}
    found = match(ow.load(sample()), read_json(tmp_path, wrap(results)))
    assert by_operator(found) == {"Conv": 2.5, "Add": 1.0}


def test_the_time_of_layers_that_tensorrt_fused_is_that_of_the_node_that_writes_their_result(tmp_path):
    layers = [
        {"count": 10},
        {"name": "conv1 + relu1", "timeMs": 20.0, "averageMs": 2.0, "percentage": 80.0},
        {"name": "PWN(s, add1)", "timeMs": 5.0, "averageMs": 0.5, "percentage": 20.0},
        {"name": "Reformatting CopyNode for Output Tensor 0 to nothing", "timeMs": 1.0, "averageMs": 0.1},
    ]
    found = match(ow.load(sample()), read_json(tmp_path, layers))
    assert (by_operator(found), found.title, len(found.unknown)) == ({"Relu": 2.0, "Add": 0.5}, "Time (ms)", 1)


def test_a_profile_of_onnxruntime_is_in_milliseconds_per_run_and_fused_nodes_are_known_by_what_they_write(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = runtime.InferenceSession(sample().SerializeToString(), options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        session.run(None, {"x": np.ones((1, 3, 8, 8), np.float32)})
    path = Path(session.end_profiling())
    data = read_node_data(path)
    events = [e for e in json.loads(path.read_text()) if e["name"].endswith("_kernel_time")]
    assert sum(data.numbers.values()) == pytest.approx(sum(e["dur"] for e in events) / 3e3)
    times = by_operator(match(ow.load(sample()), data))
    assert {"Sigmoid", "Add"} <= set(times)
    assert {"Conv", "Relu"} & set(times)


def test_the_difference_of_two_is_that_of_the_names_both_have():
    old, new = node_data({"conv1": 1.0, "relu1": 2.0}), node_data({"conv1": 4.0, "add1": 2.0})
    assert difference(new, old).numbers == {"conv1": 3.0}
    with pytest.raises(ModelError, match="no number of the same name"):
        difference(new, node_data({"relu1": 1.0}))


def test_data_of_another_model_are_refused_with_the_count():
    with pytest.raises(ModelError, match="0 of 2 names match"):
        matched(ow.load(sample()), node_data({"foo": 1.0, "bar": 2.0}), "foreign.csv")


@pytest.mark.parametrize("suffix", [".svg", ".html"])
def test_pictures_have_the_colours_and_the_model_stays_as_it_is(tmp_path, qapp, suffix):
    model = ow.load(sample())
    hostile = "<script>alert(1)</script>"
    ow.render(model, tmp_path / f"graph{suffix}", data={"conv1": hostile, "add1": "CPU"})
    text = (tmp_path / f"graph{suffix}").read_text()
    assert "CPU" in text
    assert hostile not in text
    assert not ow.diff(ow.load(sample()), model).differences


def test_a_page_shows_numbers_and_which_names_are_unknown(qapp):
    text = ow.show(ow.load(sample()), data={"conv1": 12.5, "nobody": 1.0}).html
    assert "1 of 2 names match; not in the model: nobody" in text
    assert '"data":[["Data","12.5"]]' in text


def test_the_command_says_what_matched_and_refuses_data_of_another_model(tmp_path, qapp, capsys):
    (tmp_path / "m.onnx").write_bytes(sample().SerializeToString())
    (tmp_path / "good.json").write_text('{"conv1": 3, "x y": 2}')
    (tmp_path / "bad.json").write_text('{"nobody": 3}')
    call = ["render", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.svg"), "--data"]
    assert main([*call, str(tmp_path / "bad.json")]) == 2
    assert "0 of 1 name match" in capsys.readouterr().err
    assert not (tmp_path / "m.svg").exists()
    assert main([*call, str(tmp_path / "good.json")]) == 0
    assert "1 of 2 names match; not in the model: x y" in capsys.readouterr().err
