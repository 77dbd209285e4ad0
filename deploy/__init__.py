"""Lock to nodes that serve."""
