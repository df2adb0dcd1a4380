"""Pictures and web pages of graphs, as files."""
