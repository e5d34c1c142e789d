"""Interpreters, worker processes, and which run is next."""
