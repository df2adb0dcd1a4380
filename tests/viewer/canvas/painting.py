"""What a canvas shows, once all of it is laid out and painted."""


def wait(qtbot, view):
    """Until the graph is laid out."""
    qtbot.waitUntil(lambda: view.scene is not None and not view.scenes.is_busy)


def is_painted(view):
    """Whether what is seen is complete and sharp."""
    picture = view._picture
    return view.scene is None or (
        picture is not None
        and picture.fits(view.viewport)
        and (picture.x, picture.y) == (view.viewport.x, view.viewport.y)
        and picture.is_complete
    )


def finish_painting(view):
    """Paint all that is missing now, however long it takes."""
    view._fit_to_widget()
    picture = view._current_picture()
    if view._painter is not None and picture is not None:
        while not picture.is_complete:
            picture.fill(view._painter.paint, 1.0)
    view.update()
