"""Errors at borders."""

import gc
import weakref

import pytest

from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.progress import Cancelled


class Thing:
    pass


def test_an_error_is_handed_over_and_the_work_behind_goes_on():
    report = []
    with errors_to(report.append):
        raise ZeroDivisionError("by nothing")
    assert [str(error) for error in report] == ["by nothing"]
    with errors_to(report.append):
        reached = True
    assert reached
    assert len(report) == 1


def test_only_what_was_asked_for_is_caught():
    report = []
    with pytest.raises(KeyboardInterrupt), errors_to(report.append):
        raise KeyboardInterrupt
    with errors_to(report.append, BaseException):
        raise KeyboardInterrupt
    with pytest.raises(Cancelled), errors_to(report.append, ValueError):
        raise Cancelled
    assert [type(error) for error in report] == [KeyboardInterrupt]


def test_nothing_that_was_in_use_is_kept_alive():
    """An error kept beside its traceback would keep every array of the frame that raised it."""

    def work():
        large = Thing()
        references.append(weakref.ref(large))
        raise ValueError

    references, texts = [], []
    gc.disable()
    try:
        with errors_to(lambda error: texts.append(repr(error))):
            work()
        assert texts == ["ValueError()"]
        assert references[0]() is None
    finally:
        gc.enable()
