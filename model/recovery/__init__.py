"""Crash journal: every edit is written to disk as it is made, and recovered after the program died."""
