"""One open document and what its views share: selection, navigation, messages, types, problems, signals of changes."""
