"""Runs of the open model: `session` runs it, `results` keeps what it gave, `views` show that on the graph."""
