"""What is checked of a transformed model beside its outputs: the interface, and whether its file is accepted."""

from importlib.util import find_spec

import numpy as np
import pytest

import onnx_workbench as ow
from onnx_workbench.exec.inspect import self_check
from onnx_workbench.exec.inspect.self_check import check_transformed, check_written, interface_changes
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import SILENT
from tests.model import builders

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def model(interface="float[N, 4] x", output="float[N, 4] y", nodes="y = Relu (x)", initializers=""):
    return builders.model(f"{HEAD} g ({interface}) => ({output}) {initializers} {{ {nodes} }}")


WAS = model()


@pytest.mark.parametrize(
    ("after", "report"),
    [
        (model("float[N, 4] z", nodes="y = Relu (z)"), "inputs are z, and were x"),
        (model(output="float[N, 4] z", nodes="z = Relu (x)"), "outputs are z, and were y"),
        (model("float[N, 4] x, float[2] more"), "inputs are x, more, and were x"),
        (model("float16[N, 4] x"), "input x is declared as float16[N,4], and was float[N,4]"),
        (model("float[3, 4] x"), "input x is declared as float[3,4], and was float[N,4]"),
        (model("float[N, M] x"), "input x is declared as float[N,M], and was float[N,4]"),
        (model(output="float[N, 4, 1] y"), "output y is declared as float[N,4,1], and was float[N,4]"),
        (model(output="float[N, 5] y"), "output y is declared as float[N,5], and was float[N,4]"),
        (model(output="float[3, 4] y"), ""),  # more is known of it
        (model("float[rows, 4] x"), ""),
    ],
)
def test_the_interface_is_that_of_the_original(after, report):
    assert "; ".join(interface_changes(WAS, after)) == report


def test_changes_of_the_interface_that_are_meant():
    assert list(interface_changes(WAS, model("float16[N, 4] x", "float16[N, 4] y"), ["precision"])) == []
    assert list(interface_changes(WAS, model("int32[N, 4] x"), ["precision"])) != []
    assert list(interface_changes(WAS, model("float[3, 4] x"), ["sizes"])) == []
    for kind in ("seq(float[N])", "optional(float[N])", "optional(seq(float[N]))"):
        text = '<ir_version: 8, opset_import: ["" : 18]> g ({0} x) => ({0} y) {{ y = Identity (x) }}'
        pair = [text.format(kind), text.format(kind.replace("float", "float16"))]
        assert list(interface_changes(*map(builders.model, pair), ["precision"])) == []
        assert list(interface_changes(*map(builders.model, pair))) != []
    unused = model("float[N, 4] x, float[2] more")
    assert list(interface_changes(unused, WAS, ["unused inputs"])) == []
    assert list(interface_changes(unused, WAS)) == ["inputs are x, and were x, more"]


def test_another_interface_is_refused_where_outputs_agree():
    whole = model("float[2, 4] x", "float[2, 4] y")
    found = check_transformed(whole, model("float[2, 4] x", "float[M, 4] y"))
    assert (found.agrees, found.fails) == (False, True)
    assert str(found) == "output y is declared as float[M,4], and was float[2,4]"


@pytest.mark.long
def test_outputs_that_became_nan_or_infinite_are_refused():
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float{0}[2] x) => (float{0}[2] y)'
    text += " <float{0}[1] k = {{{1}}}> {{ a = Mul (x, k) y = Mul (a, k) }}"
    pair = [builders.model(text.format("", 1e6)), builders.model(text.format("16", np.float16(65504).view(np.uint16)))]
    found = check_transformed(*pair, meant=["precision"])
    assert (found.agrees, found.fails) == (False, True)
    assert str(found) == "outputs differ: output y (by up to inf)"


def test_hugely_expanding_functions_are_neither_run_nor_loaded(monkeypatch, tmp_path):
    doubling = [
        f'<opset_import: ["d" : 1], domain: "d"> F{n} (a) => (b) {{ t = d.F{n - 1} (a) b = d.F{n - 1} (t) }}'
        for n in range(1, 40)
    ]
    first = '<opset_import: ["" : 17], domain: "d"> F0 (a) => (b) { b = Neg (a) }'
    head = '<ir_version: 8, opset_import: ["" : 17, "d" : 1]> g (float[2] x) => (float[2] y) { y = d.F39 (x) }'
    made = builders.model("\n".join([head, first, *doubling]))
    for name in "compare_isolated", "run_isolated":
        monkeypatch.setattr(self_check, name, lambda *_args, **_options: pytest.fail("a child process was started"))
    found = check_transformed(made, made)
    assert (found.agrees, found.fails) == (None, False)
    assert str(found).startswith("not compared: its functions expand to 549,755,813,888 nodes; at most 200,000")
    check_written(made, tmp_path / "written.onnx")


#: Our executor sorts nodes; ONNX Runtime and onnx.checker want them in order.
UNSORTED = model("float[N, 4] x, float[4] w", nodes="y = Relu (a) a = Add (x, w)")
SORTED = model("float[N, 4] x, float[4] w", nodes="a = Add (x, w) y = Relu (a)")


@pytest.mark.long
def test_a_file_that_is_not_accepted_any_more_is_refused():
    found = check_transformed(SORTED, UNSORTED)
    assert (found.agrees, found.fails) == (False, True)
    assert "does not accept the result (" in str(found)


@pytest.mark.long
def test_a_file_that_never_was_accepted_is_reported():
    found = check_transformed(UNSORTED, UNSORTED)
    assert found.agrees
    assert any("onnx.checker accepts neither the original nor the result (" in remark for remark in found.remarks)


def test_who_accepts_the_file_is_reported():
    found = check_transformed(WAS, WAS)
    whom = "ONNX Runtime and onnx.checker accept" if find_spec("onnxruntime") else "onnx.checker accepts"
    assert f"{whom} the file" in found.remarks


def test_what_a_runtime_lacks_is_no_fault_of_the_file():
    """No released runtime knows an operator set that is not released."""
    newest = builders.model('<ir_version: 8, opset_import: ["" : 99]> g (float[2] x) => (float[2] y) { y = Relu (x) }')
    was = builders.model('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }')
    loaded = self_check.load_both(was, newest, SILENT)
    report = [loaded.refused, *loaded.remarks]
    assert not any(text.startswith("ONNX Runtime does not accept") for text in report)


def test_large_weights_are_not_loaded_elsewhere(monkeypatch):
    monkeypatch.setattr(self_check, "_LARGEST", 8)
    heavy = model(nodes="y = Add (x, w)", initializers="<float[4] w = {1, 2, 3, 4}>")
    assert any(remark.startswith("not loaded by") for remark in check_transformed(heavy, heavy).remarks)


def test_a_part_computes_what_the_whole_does():
    whole = model(output="float[N, 4] y", nodes="a = Add (x, x) b = Exp (a) y = Neg (b)")
    part = ow.extract(whole, inputs=["a"], outputs=["b"])
    assert check_transformed(whole, part, part_of=whole.graph).agrees
    wrong = model("float[N, 4] a", "float[N, 4] b", "b = Sinh (a)")
    found = check_transformed(whole, wrong, part_of=whole.graph)
    assert found.agrees is False
    assert "output b" in str(found)


def test_a_written_file_is_loaded_with_its_external_data(tmp_path):
    whole = model("float[N, 4] x", nodes="y = Add (x, w)", initializers="<float[4] w = {1.0, 2.0, 3.0, 4.0}>")
    saved = ow.save(whole, tmp_path / "m.onnx", external="one-file", threshold=0)
    check_written(whole, saved.path)
    saved.data_files[0].unlink()
    with pytest.raises(ModelError, match="does not accept the written file"):
        check_written(whole, saved.path)


def test_a_written_file_is_no_worse_than_the_model_in_it(tmp_path):
    check_written(UNSORTED, ow.save(UNSORTED, tmp_path / "m.onnx").path)
