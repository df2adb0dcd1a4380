"""What every test may count on: no screen needed, no traces left, models to try."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.real_models import RealModels

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")  # before anything imports Qt

REPOSITORY = Path(__file__).parent.parent
# Programs that tests start import the package of this checkout, whichever one is installed.
_paths = [str(REPOSITORY / "packaging" / "launcher"), str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(_paths)

# The same examples each time, so that nobody's change meets what another's left to be found. Timing is never a reason
# to fail: the machine may be busy.
settings.register_profile(
    "fixed",
    max_examples=20,
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("fresh", settings.get_profile("fixed"), derandomize=False, max_examples=50)
settings.register_profile("thorough", settings.get_profile("fresh"), max_examples=2000)  # for a night's run


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile before tests are imported, which ask it whether examples and seeds are fixed."""
    usual = "fresh" if config.option.markexpr == "slow" else "fixed"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", usual))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what was skipped, by the beginning of the reason, in one line."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ").partition(":")[0]
        for report in terminalreporter.stats.get("skipped", ())
    )
    if reasons:
        counted = ", ".join(f"{count} x {reason}" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"{reasons.total()} skipped: {counted}")


@pytest.fixture(scope="session")
def _state_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    base = tmp_path_factory.mktemp("state")
    return (base / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def state_folder(_state_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of this test's own for settings, recent files, logs and journals; made when something is written."""
    folder = next(_state_folders)
    monkeypatch.setenv("ONNX_WORKBENCH_STATE", str(folder))
    return folder


@pytest.fixture(scope="session")
def real_models() -> RealModels:
    """Models that people use, by name: `real_models / "sklearn_mlp_pca" / "model.onnx"`."""
    return RealModels()


@pytest.fixture(scope="session")
def onnx_models() -> tuple[Path, ...]:
    """Every model file the onnx package brings for its own tests, in a fixed order."""
    import onnx

    return tuple(sorted((Path(onnx.__file__).parent / "backend" / "test" / "data").rglob("*.onnx")))


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every journal look like that of a program that is gone."""
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
