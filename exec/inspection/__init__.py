"""What is asked about the values of a run: how they are spread, where they came from, whether they are right."""
