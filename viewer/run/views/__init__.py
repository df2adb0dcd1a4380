"""What a run shows on and above the graph: notes, marks, overlays, reports."""
