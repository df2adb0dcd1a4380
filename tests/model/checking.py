"""What tests ask of checks."""

from collections import Counter

from onnx_workbench.model.checks import check_model


def legal(model):
    """Whether nothing in it is an error."""
    return [problem for problem in check_model(model) if problem.severity == "error"] == []


def listing(problems):
    """Problems to compare: what is said of which object, in any order."""
    return Counter((p.rule, p.severity, p.message, p.detail, id(p.place)) for p in problems)


def assert_agrees(checker, document):
    """The checker knows what checking anew finds."""
    assert listing(checker.run()) == listing(check_model(document.model))
