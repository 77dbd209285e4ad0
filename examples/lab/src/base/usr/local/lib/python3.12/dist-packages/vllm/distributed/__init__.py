"""The ranks, and how they reach each other."""
