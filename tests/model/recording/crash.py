"""The end of a program that nobody asked to end."""

from model.recording.store import new_path


def abandon(journal):
    """Leave the file of a journal as a crash would; nothing is written any more."""
    while journal._endings:
        journal._endings.pop()()
    journal._until_kept.clear()
    if journal._store is not None:
        journal._store.close()
        journal._store = None
    journal._path = new_path(journal._folder)  # closing its tab then finds nothing to remove
