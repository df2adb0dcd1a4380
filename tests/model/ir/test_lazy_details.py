"""What opening a file leaves in the messages is decoded once, however many threads read it."""

import threading

import onnx

from onnx_workbench.model.io.reader.read import load

THREADS = 8


def read_at_once(read):
    """What several threads get that begin together."""
    start, found = threading.Barrier(THREADS), []

    def work():
        start.wait()
        found.append(read())

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_threads_that_read_the_same_things_get_the_same_objects(tmp_path):
    inputs = [onnx.helper.make_tensor_value_info(f"x{i}", onnx.TensorProto.FLOAT, ["n", i]) for i in range(200)]
    outputs = [onnx.helper.make_tensor_value_info(f"y{i}", onnx.TensorProto.FLOAT, ["n", i]) for i in range(200)]
    nodes = [
        onnx.helper.make_node("LeakyRelu", [f"x{i}"], [f"y{i}"], alpha=0.5, doc_string=f"node {i}") for i in range(200)
    ]
    path = tmp_path / "lazy.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", inputs, outputs)), path)
    graph = load(path).graph

    def read():
        of_nodes = [(node.attributes["alpha"], node.details, graph.nodes.place(node)) for node in graph.nodes]
        return of_nodes, [value.type for value in graph.inputs]

    first, *others = read_at_once(read)
    for nodes_read, types in others:
        assert all(a is b for (a, _, _), (b, _, _) in zip(nodes_read, first[0], strict=True))
        assert all(a is b for (_, a, _), (_, b, _) in zip(nodes_read, first[0], strict=True))
        assert [place for _, _, place in nodes_read] == [place for _, _, place in first[0]]
        assert all(a is b for a, b in zip(types, first[1], strict=True))
    assert [details.doc_string for _, details, _ in first[0]] == [f"node {i}" for i in range(200)]
