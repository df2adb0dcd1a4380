"""What a user does to a model, as plain functions over steps."""
