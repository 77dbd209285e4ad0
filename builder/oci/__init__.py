"""The OCI image format: reading, stacking, writing and checking."""
