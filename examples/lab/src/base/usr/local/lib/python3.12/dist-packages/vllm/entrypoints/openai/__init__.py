"""The HTTP server with OpenAI's routes."""
