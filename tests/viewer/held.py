"""Work that a test holds up."""

from model.progress import Progress


def until_stopped(began):
    """Stands in for work that takes a `Progress`: says that it began, and goes on until it is stopped."""

    def work(*given, **named):
        began.set()
        progress = next(one for one in (*given, *named.values()) if isinstance(one, Progress))
        while True:
            progress.check()

    return work
