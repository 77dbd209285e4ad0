"""Proof of what runs."""
