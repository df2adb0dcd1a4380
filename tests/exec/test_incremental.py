"""Incremental runs: what an edit changes is never answered from before, and what was dropped comes back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from exec import Session
from model import Document
from model.steps import SetAttribute
from tests.exec.texts import node, parse

X = np.array([1.0, -2.0, 3.0], np.float32)


def test_zero_of_the_other_sign_is_another_attribute() -> None:
    document = Document(parse("g (float[3] x) => (float[3] y) { c = Constant <value_float = 0.0> () y = Mul(x, c) }"))
    session = Session(document)
    assert np.signbit(session.run({"x": X}).outputs["y"]).tolist() == [False, True, False]
    constant = node(document.model, "c")
    with document.edit("Set value_float") as edit:
        edit.do(SetAttribute(constant, "value_float", replace(constant.attributes["value_float"], value=-0.0)))
    assert np.signbit(session.run({"x": X}).outputs["y"]).tolist() == [True, False, True]
    document.undo()
    assert np.signbit(session.run({"x": X}).outputs["y"]).tolist() == [False, True, False]
