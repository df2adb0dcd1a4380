"""The graph as a picture: drawn up from the model, laid out, painted from arrays, and used with mouse and keys.

    model.Graph ─ build ─▶ Drawing ─ layout ─▶ Scene ─ painter ─▶ Picture ─▶ the widget
                  cards      boxes     (task)    places   svg          marks and names over it, in every frame
                  captions   edges              hits     export
                  scopes                        labels

`view.GraphView` is the widget, made of `surface` (frames), `loader` (from the model to a scene), `hands` (mouse and
keys) and `tools` (one class per mouse interaction). From `build` to `scene` nothing paints, and from `scene` on
nothing reads the model but the texts and objects the boxes carry. There is no object of Qt per node: 100,000 nodes
are a handful of arrays, and what is in view is found through `grid`.
"""
