"""Comparison of a configuration's results with eager's, and the search for the first line that differs."""

RANDOM, STATE = "random", "state"
"""Why eager's results differ between calls: it draws random numbers, or something else changes, such as state that the
target keeps or the order in which its kernels add."""
