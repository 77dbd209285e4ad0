"""Manifest to lock to image."""
