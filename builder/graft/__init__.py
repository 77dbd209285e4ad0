"""What is changed in a base: picked files, edited tables, and the proof that it closes."""
