"""Scene of the canvas: boxes with their texts and sizes, edges, and their positions."""
