"""From command line to engine configuration."""
