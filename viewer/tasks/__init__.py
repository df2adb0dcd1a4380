"""Work off the GUI thread and between events: thread pools, tasks with progress and Cancel, readers of open models."""
