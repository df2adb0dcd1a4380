"""Shardings as text: what is written is read back, and what is no sharding is refused saying why."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.devices import ShardedDimension
from onnx_workbench.model.text.sharding import (
    devices_source,
    groups_source,
    parse_devices,
    parse_groups,
    parse_sharded_dimensions,
    sharded_dimensions_source,
)
from tests.examples import examples

numbers = st.integers(-(1 << 63), (1 << 63) - 1)
lists = st.lists(numbers, max_size=4).map(tuple)
symbols = st.text(min_size=1, max_size=6) | st.sampled_from(["N", "?", "12", "a in 2", "x:y", '"', "-1", "\\", "ü;"])
sizes = st.none() | numbers | symbols
shards = st.lists(st.tuples(sizes, st.integers(1, 1 << 40)), max_size=3).map(tuple)
dimensions = st.lists(st.builds(ShardedDimension, numbers, shards), max_size=3, unique_by=lambda d: d.axis).map(tuple)


@given(lists, st.lists(st.tuples(numbers, lists), max_size=3, unique_by=lambda g: g[0]).map(tuple), dimensions)
@settings(max_examples=examples(150), deadline=None)
def test_what_is_written_is_read_back(devices, groups, axes):
    assert parse_devices(devices_source(devices)) == devices
    assert parse_groups(groups_source(groups)) == groups
    assert parse_sharded_dimensions(sharded_dimensions_source(axes)) == axes


def test_it_is_written_as_people_say_it():
    axes = (ShardedDimension(0, (("N", 2), (64, 4))), ShardedDimension(-1, ((None, 2),)))
    assert sharded_dimensions_source(axes) == "0: N in 2, 64 in 4; -1: ? in 2"
    assert parse_sharded_dimensions(" 0 : N in 2 ,64 in 4;-1:? in 2 ; ") == axes
    assert groups_source(((-1, (0, 1)), (-2, (2,)))) == "-1 = 0, 1; -2 = 2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("N in 2", "not understood"),
        ("0: N", "not understood"),
        ("0: N in 0", "0 shards"),
        ("0: N in two", "not a whole number"),
        ("zero: N in 2", "not a whole number"),
        ("0: N in 2; 0: M in 2", "given twice"),
        ("0: N in 2 M in 3", "not understood"),
        ('0: "N in 2', "not understood"),
    ],
)
def test_what_is_no_sharding_is_refused(text, said):
    with pytest.raises(ModelError) as refused:
        parse_sharded_dimensions(text)
    assert said in refused.value.title


def test_groups_and_devices_are_refused():
    with pytest.raises(ModelError, match="not a device group"):
        parse_groups("1, 2")
    with pytest.raises(ModelError, match="given twice"):
        parse_groups("-1 = 0; -1 = 1")
    with pytest.raises(ModelError, match="not a whole number"):
        parse_devices("0, one")
