"""A browser that runs without a display, where one is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def browser() -> str | None:
    """The first of Chromium's names that is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass(frozen=True)
class Shown:
    """A page after its script ran: its document as text, and what was written to the console."""

    document: str
    console: list[str]

    @property
    def facts(self) -> str:
        """The text of the side panel."""
        panel = self.document[self.document.index("<aside") : self.document.index("</aside>")]
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", panel)))

    def canvas(self, name: str) -> int:
        """A number that the canvas was given: "scene" shown, boxes "painted", "zoom" in percent."""
        found = re.search(rf'data-{name}="(\d+)"', self.document)
        assert found is not None, f"the page painted nothing: {self.console}"
        return int(found[1])


def _lift_memory_limit() -> None:
    """Commands that ran in this process limited its memory; a browser reserves more addresses than that."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def show(page: Path, profile: Path, address: str = "") -> Shown:
    """Open a page and read the document once it is loaded: by then the script of the page ran and painted."""
    command = browser()
    assert command is not None
    done = subprocess.run(
        [
            command, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
            "--enable-logging=stderr", "--window-size=1200,800", "--no-first-run", "--disable-background-networking",
            f"--user-data-dir={profile}", page.as_uri() + address,
        ],
        capture_output=True, check=True, preexec_fn=_lift_memory_limit, timeout=200, encoding="utf-8", errors="replace",
    )  # fmt: skip
    return Shown(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])
