"""A model with something of everything that edits speak of: bodies, functions, training, devices, texts, sparse."""

import onnx
import onnx.parser
from onnx import TensorProto, helper

TEXT = """
<ir_version: 11, opset_import: ["" : 23, "local" : 1], metadata_props: ["made": "here"]>
rich (float[N, 4] x, float[4] w, bool flag, int64 n, float[2] unasked) => (float[N, 4] y, float[k] scan, float[4] spare)
<float[4] w = {1.0, 2.0, 3.0, 4.0}, float[4] b = {0.5, 0.5, 0.5, 0.5}, float[3] unread = {1, 2, 3}>
{
    [first] a = Mul (x, w)
    [two] two = Constant <value: tensor = float[4] {2, 2, 2, 2}> ()
    [second] c = Add (a, two)
    [choose] z = If (flag) <
        then_branch: graph = yes () => (float[N, 4] yes_out)
        <float[4] own = {1, 2, 3, 4}>
        {
            [one] one = Constant <value: tensor = float[4] {1, 1, 1, 1}> ()
            [inner] i = Mul (c, own)
            [sum] yes_out = Add (i, one)
        },
        else_branch: graph = no () => (float[N, 4] no_out) { [negate] no_out = Neg (c) }
    >
    [loop] last, scan = Loop (n, flag, b) <
        body: graph = turn (int64 i, bool go, float[4] v) => (bool on, float[4] next, float[4] s)
        {
            [on] on = Identity (go)
            [step] next = Add (v, w)
            [keep] s = Relu (next)
        }
    >
    [call] u = local.scale <factor: float = 2.0> (z)
    [again] y = local.scale (u)
    [spare] spare, other = Split <axis: int = 0, num_outputs: int = 2> (b)
}
<domain: "local", opset_import: ["" : 23], doc_string: "Scales">
scale <exact, factor: float = 3.0> (v) => (o)
{
    [factor] f = Constant <value_float: float = @factor> ()
    [times] p = Mul (v, f)
    [pass] o = Identity (p)
}
<domain: "local", opset_import: ["" : 23]>
idle <slope> (p, q) => (r, t)
{
    [less] r = Sub (p, q)
    [leaky] t = LeakyRelu <alpha: float = @slope> (r)
}
"""

STEP = """
step () => (float[4] w_new)
<float rate = {0.1}>
{
    [loss] s = ReduceMean <keepdims: int = 0> (y)
    [half] half = Constant <value: tensor = float {0.5}> ()
    [scaled] t = Mul (s, rate)
    [halved] h = Mul (t, half)
    [update] w_new = Sub (w, h)
}
"""


def rich_bytes() -> bytes:
    """The model as a file."""
    proto = onnx.parser.parse_model(TEXT)
    graph = proto.graph
    training = proto.training_info.add()
    training.algorithm.CopyFrom(onnx.parser.parse_graph(STEP))
    training.initialization.CopyFrom(onnx.parser.parse_graph("start () => (float[4] w0) { [zero] w0 = Identity (b) }"))
    training.update_binding.add(key="w", value="w_new")
    training.initialization_binding.add(key="w", value="w0")
    proto.configuration.add(name="pair", num_devices=2, device=["one", "two"])
    spread = graph.node[0].device_configurations.add(configuration_id="pair", pipeline_stage=1)
    part = spread.sharding_spec.add(tensor_name="w", device=[0, 1])
    part.sharded_dim.add(axis=0).simple_sharding.add(dim_value=4, num_shards=2)
    annotation = graph.quantization_annotation.add(tensor_name="a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="b")
    for tensor in (*graph.initializer, graph.node[1].attribute[0].t):
        tensor.doc_string = "A tensor"
        tensor.metadata_props.add(key="from", value="a test")
    values = helper.make_tensor("sparse", TensorProto.FLOAT, [2], [1.0, 2.0])
    graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, helper.make_tensor("at", TensorProto.INT64, [2], [0, 3]), [5])
    )
    graph.node[0].metadata_props.add(key="namespace", value="top/left")
    graph.node[0].attribute.append(helper.make_attribute("note", "text", doc_string="Said of it"))
    graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, ["N", 4]))
    graph.metadata_props.add(key="graph", value="main")
    data: bytes = proto.SerializeToString()
    return data + b"\xfa\x3e\x03abc"  # a field that onnx.proto does not have
