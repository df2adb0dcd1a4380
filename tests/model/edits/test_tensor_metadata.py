"""Names, descriptions and metadata of tensors, wherever these stand: changed, saved, recovered, taken back."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_workbench.model.edits import tensor_metadata, tensors
from onnx_workbench.model.edits.tensors import TensorLocation
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute, SetInitializer
from onnx_workbench.model.io.reader import read
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save, to_bytes
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.recovery.journal import Journal
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.recovery.recorded_work import recovered

TEXTS = ("named", "what it is", {"origin": "layer 3"})


def weighted():
    """A Constant, a weight of which the values stay in the file, and a sparse one."""
    large = numpy_helper.from_array(np.arange(5000, dtype=np.float32), "w")
    large.doc_string = "before"
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([1.0, 2.0], np.float32), "s"),
        numpy_helper.from_array(np.array([0, 3], np.int64), "places"),
        [4],
    )
    constant = helper.make_node("Constant", [], ["c"], name="constant", value=numpy_helper.from_array(np.ones(2)))
    uses = helper.make_node("Foo", ["w", "s", "c"], ["y"], name="uses", domain="local")
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([constant, uses], "g", [], [y], [large], sparse_initializer=[sparse])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("local", 1)])


PLACES = {
    "of a Constant": (lambda d: TensorLocation(builders.node(d, "constant"), "value"), "values"),
    "of a sparse initializer's indices": (lambda d: TensorLocation(builders.value(d, "s")), "indices"),
    "of a sparse initializer's values": (lambda d: TensorLocation(builders.value(d, "s")), "values"),
    "of a weight in the file": (lambda d: TensorLocation(builders.value(d, "w")), "values"),
}


@pytest.fixture
def document(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "PARSED_WHOLE", 0)  # small as it is: the weight's values are left where they are
    path = tmp_path / "m.onnx"
    onnx.save(weighted(), path)
    return Document(load(path), path)


def describe(document, place, part):
    is_named = part == "indices" or place.attribute
    with document.edit("Describe") as edit:
        if is_named:
            tensor_metadata.set_tensor_name(edit, place, "named", part)
        tensor_metadata.describe_tensor(edit, place, "what it is", part)
        tensor_metadata.set_tensor_metadata(edit, place, "source", "layer 3", part)
        tensor_metadata.rename_tensor_metadata(edit, place, "source", "origin", part)
    return "named" if is_named else place.owner.name


def texts_at(document, where, part):
    tensor = tensors.tensor_at(where(document))
    tensor = getattr(tensor, part, tensor)
    return tensor.name, tensor.doc_string, dict(tensor.metadata)


@pytest.mark.parametrize(("where", "part"), PLACES.values(), ids=PLACES)
def test_texts_are_written_and_taken_back_and_the_values_stay(document, where, part):
    before = to_bytes(document.model)
    values = tensors.tensor_at(where(document))
    name = describe(document, where(document), part)
    assert texts_at(document, where, part) == (name, *TEXTS[1:])
    again = load(to_bytes(document.model))
    assert texts_at(again, where, part) == (name, *TEXTS[1:])
    for kept in (document, again):
        tensor = tensors.tensor_at(where(kept))
        np.testing.assert_array_equal(getattr(tensor, part, tensor).numpy(), getattr(values, part, values).numpy())
    document.undo()
    assert to_bytes(document.model) == before


@pytest.mark.parametrize(("where", "part"), PLACES.values(), ids=PLACES)
def test_a_journal_brings_them_back(document, tmp_path, monkeypatch, where, part):
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
    journal = Journal(document, tmp_path / "state")
    name = describe(document, where(document), part)
    abandon(journal)
    assert texts_at(recovered(document, tmp_path / "state"), where, part) == (name, *TEXTS[1:])


def test_values_that_stay_in_the_file_are_not_read(document):
    place = TensorLocation(builders.value(document, "w"))
    assert tensors.tensor_at(place).storage == "file"
    describe(document, place, "values")
    assert tensors.tensor_at(place).storage == "file"


def test_values_in_a_data_file_stay_there(document, tmp_path):
    path = tmp_path / "outside.onnx"
    save(document.model, path, Storage(DataLayout.ONE_FILE, threshold=100))
    document = Document(load(path), path)
    place = TensorLocation(builders.value(document, "w"))
    describe(document, place, "values")
    save(document.model, path)
    assert [f.name for f in tmp_path.iterdir() if f.suffix == ".data"] == [tensors.tensor_at(place).location]
    tensor = tensors.tensor_at(TensorLocation(builders.value(load(path), "w")))
    assert (tensor.storage, tensor.doc_string) == ("external", "what it is")


def test_tensors_made_by_edits_and_lists_of_them():
    document = builders.document()
    weight, node = builders.value(document, "w"), builders.node(document, "first")
    made = ArrayTensor(np.ones(4, np.float32))
    listed = Attribute("parts", AttributeKind.TENSORS, (made, made))
    with document.edit("Put") as edit:
        edit.do(SetInitializer(weight.graph, weight, made))
        edit.do(SetAttribute(node, "parts", listed))
    with document.edit("Describe") as edit:
        tensor_metadata.describe_tensor(edit, TensorLocation(weight), "all ones")
        tensor_metadata.describe_tensor(edit, TensorLocation(node, "parts", 1), "the second")
    assert weight.initializer.doc_string == "all ones"
    assert weight.initializer.numpy() is made.numpy()
    assert [part.doc_string for part in node.attributes["parts"].value] == ["", "the second"]
    assert not made.doc_string


def test_refusals_say_why(document):
    weight = TensorLocation(builders.value(document, "w"))
    with document.edit("Describe") as edit:
        tensor_metadata.set_tensor_metadata(edit, weight, "a", "1")
        for act, reason in (
            (lambda: tensor_metadata.set_tensor_name(edit, weight, "other"), "has the name of its value"),
            (lambda: tensor_metadata.set_tensor_metadata(edit, weight, "", "1"), "needs a key"),
            (lambda: tensor_metadata.rename_tensor_metadata(edit, weight, "a", ""), "cannot be the new key"),
            (lambda: tensor_metadata.describe_tensor(edit, weight, "text", "indices"), "no such tensor"),
            (
                lambda: tensor_metadata.describe_tensor(edit, TensorLocation(weight.owner.graph.nodes.last), "text"),
                "no such tensor",
            ),
        ):
            with pytest.raises(ModelError, match=reason):
                act()
