"""Files of numbers per node: the forms that people have, and what is said of others."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_workbench as ow
from onnx_workbench.exec.inspect.node_data import difference, match, matched, node_data
from onnx_workbench.exec.inspect.node_data_files import read_node_data
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


def test_names_may_hold_quoted_and_unicode_line_breaks(tmp_path):
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


def test_node_data_of_model_explorer_have_the_name_that_they_say(tmp_path):
    data = {"main_graph": {"name": "Latency", "results": {"conv1": {"value": 2.5}, "y": {"value": -1}}}}
    assert match(ow.load(sample()), read_json(tmp_path, data)).title == "Latency"
    texts = {"results": {"conv1": {"value": "int8"}, "y": {"value": "float"}}}
    assert by_operator(match(ow.load(sample()), read_json(tmp_path, texts))) == {"Conv": "int8", "Add": "float"}


@pytest.mark.parametrize(
    ("layer", "operator"),
    [
        ("conv1 + relu1", "Relu"),
        ("w + conv1 + PWN(relu1)", "Relu"),
        ("PWN(s, add1)", "Add"),
        ("{ForeignNode[conv1...add1]}", "Add"),
        ("Reformatting CopyNode for Input Tensor 0 to w + conv1 + relu1", "Relu"),
        ("Reformatting CopyNode for Output Tensor 0 to add1", "Add"),
        ("relu1_clone_1", "Relu"),
        ("add1_r_clone_0 copy", "Add"),
        ("PWN(PWN((Unnamed Layer* 112) [ElementWise], relu1), (Unnamed Layer* 113) [Unary])", "Relu"),
        ("Reformatting CopyNode for Output Tensor 0 to nothing", None),
        ("(Unnamed Layer* 714) [Constant]", None),
        ("[trainStation1]", None),
        ("__myl_FcAddRel_myl0_1", None),
    ],
)
def test_a_tensorrt_layer_gives_its_time_to_the_node_it_ends_in(tmp_path, layer, operator):
    layers = [
        {"count": 11},
        {"name": "x", "timeMs": 0, "averageMs": 0, "medianMs": 0, "percentage": 0},
        {"name": layer, "timeMs": 22.0, "averageMs": 2.0, "medianMs": 1.9, "percentage": 100.0},
    ]
    found = match(ow.load(sample()), read_json(tmp_path, layers))
    assert (by_operator(found), found.title) == ({operator: 2.0} if operator else {}, "Time (ms)")


def test_times_of_several_layers_of_one_node_are_added(tmp_path):
    names = ["Reformatting CopyNode for Input Tensor 0 to conv1", "conv1"]
    layers = [{"count": 1}, *({"name": name, "averageMs": 2.0} for name in names)]
    assert by_operator(match(ow.load(sample()), read_json(tmp_path, layers))) == {"Conv": 4.0}


def test_layer_information_of_tensorrt_says_what_each_node_became(tmp_path):
    layer = {
        "Name": "__myl_ConvRelu_myl0_0",
        "LayerType": "CaskConvolution",
        "Outputs": [{"Name": "r", "Dimensions": [1, 8, 6, 6], "Format/Datatype": "Half NC/8HW8"}],
        "Metadata": "[ONNX Layer: conv1]\x1f[ONNX Layer: relu1 | call (block)]",
    }
    plain = {"Name": "PWN(s, add1)", "LayerType": "PointWise", "Outputs": []}
    found = match(ow.load(sample()), read_json(tmp_path, {"Layers": [layer, plain], "Bindings": ["x", "y"]}))
    assert [(one.title, by_operator(one)) for one in found.columns] == [
        ("Layer type", {"Conv": "CaskConvolution", "Relu": "CaskConvolution", "Add": "PointWise"}),
        ("Output format", {"Conv": "Half NC/8HW8", "Relu": "Half NC/8HW8"}),
    ]
    with pytest.raises(ModelError, match="profilingVerbosity=detailed"):
        read_json(tmp_path, {"Layers": ["conv1 + relu1"], "Bindings": []})


def test_an_onnxruntime_profile_gives_milliseconds_per_run(tmp_path):
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
    (providers,) = match(ow.load(sample()), data).more
    assert (providers.title, set(by_operator(providers).values())) == ("Execution provider", {"CPU"})


def test_a_difference_has_the_nodes_that_both_files_have():
    model = ow.load(sample())
    old = match(model, node_data({"conv1": 1.0, "relu1": 2.0}))
    new = match(model, node_data({"c": 4.0, "add1": 2.0}))
    found = difference(new, old)
    assert by_operator(found) == {"Conv": 3.0}
    assert found.summary() == "4 of 4 names match; 2 nodes in only one of the two"
    with pytest.raises(ModelError, match="no data of the same kind for the same node"):
        difference(new, match(model, node_data({"relu1": 1.0})))
    with pytest.raises(ModelError, match="no data of the same kind"):
        difference(new, match(model, node_data({"add1": "CPU"})))
    huge = [match(model, node_data({"conv1": sign * 1e308, "add1": 1.0})) for sign in (1, -1)]
    assert by_operator(difference(*huge)) == {"Add": 0.0}, "what is not finite is no number"


def test_the_difference_of_texts_says_what_changed():
    model = ow.load(sample())
    old, new = (match(model, node_data({"conv1": "CPU", "add1": device})) for device in ("CPU", "GPU"))
    assert by_operator(difference(new, old)) == {"Conv": "CPU", "Add": "CPU → GPU"}


@pytest.mark.parametrize(
    ("text", "expected", "title"),
    [
        ("conv1,GPU\nrelu1,CPU\n", {"Conv": "GPU", "Relu": "CPU"}, "Data"),
        ("node,device\nconv1,GPU\nrelu1,CPU\n", {"Conv": "GPU", "Relu": "CPU"}, "device"),
        (",device\nconv1,GPU\n", {"Conv": "GPU"}, "device"),
        (",ms\nconv1,2\n", {"Conv": 2.0}, "ms"),
        ("conv1,failed\nrelu1,2\n", {"Relu": 2.0}, "Data"),
    ],
)
def test_the_first_line_is_a_heading_unless_it_names_a_node(tmp_path, text, expected, title):
    path = tmp_path / "data.csv"
    path.write_text(text)
    found = match(ow.load(sample()), read_node_data(path))
    assert (by_operator(found), found.title, found.unknown) == (expected, title, [])


def test_a_table_may_have_several_columns_numbers_first(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("node,device,ms,MB\nconv1,GPU,2,8\ns,CPU,1,\n")
    found = match(ow.load(sample()), read_node_data(path))
    assert [(one.title, by_operator(one)) for one in found.columns] == [
        ("ms", {"Conv": 2.0, "Sigmoid": 1.0}),
        ("MB", {"Conv": 8.0}),
        ("device", {"Conv": "GPU", "Sigmoid": "CPU"}),
    ]
    chosen = found.column("device")
    assert [one.title for one in chosen.columns] == ["device", "ms", "MB"]
    with pytest.raises(ModelError, match="no column watts"):
        found.column("watts")
    path.write_text("conv1,GPU,2\ns,CPU,1\n")
    assert [len(one.values) for one in match(ow.load(sample()), read_node_data(path)).columns] == [2, 2]


def test_a_name_of_a_further_output_is_in_the_model_too():
    node = helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xab"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    found = match(ow.load(helper.make_model(graph)), node_data({"a": 1.0, "b": 2.0}))
    assert (by_operator(found), found.unknown) == ({"Split": 1.0}, [])


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


def test_the_command_counts_matches_and_refuses_other_data(tmp_path, qapp, capsys):
    (tmp_path / "m.onnx").write_bytes(sample().SerializeToString())
    (tmp_path / "good.json").write_text('{"conv1": 3, "x y": 2}')
    (tmp_path / "bad.json").write_text('{"nobody": 3}')
    call = ["render", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.svg"), "--data"]
    assert main([*call, str(tmp_path / "bad.json")]) == 2
    assert "0 of 1 name match" in capsys.readouterr().err
    assert not (tmp_path / "m.svg").exists()
    assert main([*call, str(tmp_path / "good.json")]) == 0
    assert "1 of 2 names match; not in the model: x y" in capsys.readouterr().err
