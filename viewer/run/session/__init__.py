"""Running the open model: inputs, control, progress, breakpoints and searches."""
