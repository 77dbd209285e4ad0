"""Models, the layers they are made of, and the loading of their weights."""
