"""Reading and writing files; the only place that sees protobuf."""
