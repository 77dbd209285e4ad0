"""Images in registries, read over the distribution protocol."""
