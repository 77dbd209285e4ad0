"""From the text of cluster.toml to a manifest, or to everything that is wrong with it."""
