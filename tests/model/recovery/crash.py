"""The end of a program that nobody asked to end."""

from onnx_workbench.model.recovery.journal_files import new_path


def abandon(journal):
    """Leave the file of a journal as a crash would; nothing is written any more."""
    while journal._endings:
        journal._endings.pop()()
    journal._until_kept.clear()
    for log in filter(None, (journal._log, journal._next)):
        if log._store is not None:
            log._store.close()
            log._store = None
        log._path = new_path(journal._folder)  # closing its tab then finds nothing to remove
