"""The canvas: the drawing of a graph is built from the model, laid out, painted from arrays, and takes mouse and keys.

    model.Graph ─ scene/builder ─▶ Drawing ─ layout ─▶ Scene ─ paint/painter ─▶ BackingStore ─▶ Surface (the widget)
                                   boxes     (task)    positions  pictures/                     marks and names on
                                   edges               hits                                     top, in every frame

`graph_view.GraphView` is the surface of a document; its docstring lists its parts. The steps before the scene do not
paint; from the scene on the model is not read, only the texts and objects that boxes hold. There is no Qt object per
node: 100,000 nodes are a handful of arrays, and visible boxes are found through `spatial_grid`.
"""
