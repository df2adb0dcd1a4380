"""Reading and writing files; the only room that uses protobuf messages."""
