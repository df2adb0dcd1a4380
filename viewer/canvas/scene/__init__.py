"""What the canvas shows: boxes with their texts and sizes, edges, and where they are."""
