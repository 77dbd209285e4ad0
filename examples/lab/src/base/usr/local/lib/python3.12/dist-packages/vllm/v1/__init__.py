"""The engine: scheduler, executor and workers."""
