"""Where builder meets disk and console."""
