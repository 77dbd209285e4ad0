"""Processes and network addresses."""
