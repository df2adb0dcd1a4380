"""Regular expressions: what they find and put in, and that one without end ends."""

import signal
import sys
import threading
from types import SimpleNamespace

import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text import regular_expressions
from onnx_workbench.model.text.regular_expressions import RegularExpression

ENDLESS, TEXT = "(a+)+b", "a" * 40


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal for it")
@pytest.mark.parametrize("expression", [ENDLESS, "(a|aa)+$", "(?:a|a)*b", r"(.+)+\1x", "(?=(a+)+b)"])
@pytest.mark.parametrize("look", ["is_in", "parts", "whole"])
def test_one_that_backtracks_without_end_is_stopped(expression, look, monkeypatch):
    monkeypatch.setattr(regular_expressions, "LIMIT_SECONDS", 0.05)
    wanted = RegularExpression(expression)
    look_in = wanted.is_in if look == "is_in" else wanted.replacing("", whole=look == "whole")
    with pytest.raises(ModelError, match="takes too long"):
        look_in(f"{TEXT}!")
    assert RegularExpression("a+!").is_in(f"{TEXT}!")


def test_nothing_is_stopped_afterwards(monkeypatch):
    monkeypatch.setattr(regular_expressions, "LIMIT_SECONDS", 0.01)
    assert RegularExpression("a").is_in("a")
    assert sum(range(3_000_000)) > 0  # longer than the limit


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal for it")
def test_a_late_or_foreign_timer_signal_stops_nothing(monkeypatch):
    wanted = RegularExpression("a")
    assert wanted.is_in("a")
    signal.raise_signal(signal.SIGVTALRM)  # as one of the timer that another thread was given, received late
    others = SimpleNamespace(search=lambda text: signal.raise_signal(signal.SIGVTALRM) or text)
    monkeypatch.setattr(wanted, "_pattern", others)
    assert wanted.is_in("a")


def test_off_the_main_thread_they_find_too():
    found = []
    thread = threading.Thread(target=lambda: found.append(RegularExpression("A+", ignores_case=True).is_in(TEXT)))
    thread.start()
    thread.join()
    assert found == [True]


def test_replacements():
    assert RegularExpression("(a)b").replacing(r"\1")("ab ab") == "a a"
    whole = RegularExpression("(a)b").replacing(r"\1", whole=True)
    assert (whole("ab"), whole("ab ab")) == ("a", "ab ab")
    for template in (r"\2", r"\g<none>", "\\"):
        with pytest.raises(ModelError, match="does not work"):
            RegularExpression("(a)b").replacing(template)
