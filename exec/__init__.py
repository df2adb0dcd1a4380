"""The numpy executor: runs a model and keeps every value it computed. Knows no Qt."""
