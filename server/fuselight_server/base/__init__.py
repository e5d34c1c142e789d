"""Shared by every layer of the server."""
