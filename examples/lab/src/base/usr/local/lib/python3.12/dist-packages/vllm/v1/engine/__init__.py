"""The engine core, and the client that the HTTP server has of it."""
