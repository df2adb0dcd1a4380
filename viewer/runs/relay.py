"""Progress of work that goes on over several jobs."""

from __future__ import annotations

from model.progress import Progress


class Relay(Progress):
    """The progress of a run that goes on over several jobs: that of the job it is in now."""

    def __init__(self, job: Progress) -> None:
        super().__init__()
        self.now = job

    def report(self, done: float, total: float, text: str = "") -> None:
        """Tell the job."""
        self.now.report(done, total, text)

    def check(self) -> None:
        """Raise Cancelled when the job was cancelled."""
        self.now.check()

    def cancel(self) -> None:
        """Cancel the job."""
        self.now.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled."""
        return self.now.cancelled
