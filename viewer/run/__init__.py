"""Runs of the open model: what they get, how they go, what they tell; `viewer.run.results` keeps what they gave."""
