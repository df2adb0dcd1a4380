"""Two open documents held against each other: side by side or merged, followed through, run alike."""
