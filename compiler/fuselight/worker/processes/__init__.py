"""Processes of a worker: start, pipes, limits, end."""
