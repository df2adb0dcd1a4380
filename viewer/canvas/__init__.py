"""The graph as a picture: drawn up from the model, laid out, painted from arrays, and used with mouse and keys.

    model.Graph ─ scene/builder ─▶ Drawing ─ layout ─▶ Scene ─ paint/painter ─▶ BackingStore ─▶ Surface (the widget)
                                   boxes     (task)    places     svg, export                   marks and names over
                                   edges               hits                                     it, in every frame

`graph_view.GraphView` is the surface of a document; its docstring lists the objects it is made of. Up to the scene
nothing paints, and from the scene on nothing reads the model but the texts and objects the boxes carry. There is no
object of Qt per node: 100,000 nodes are a handful of arrays, and what is in view is found through `spatial_grid`.
"""
