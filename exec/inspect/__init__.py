"""What is asked about the values of a run: how they are spread, how they differ, where they came from."""
