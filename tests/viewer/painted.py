"""What of a widget is painted."""

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QRegion


class Painted(QObject):
    """The region of a widget that was painted since this was made."""

    def __init__(self, widget):
        super().__init__(widget)
        self.region = QRegion()
        widget.installEventFilter(self)

    def eventFilter(self, _watched, event):
        if event.type() == QEvent.Type.Paint:
            self.region += event.region()
        return False
