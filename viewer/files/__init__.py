"""Documents and the world outside: opened, saved, watched, handed over, recovered."""
