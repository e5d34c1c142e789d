"""Comparison of a configuration's results with eager's, and the search for the first line that differs."""

RANDOM, STATE = "random", "state"
"""Why eager's results differ between calls: it draws random numbers, or it keeps state between calls."""
