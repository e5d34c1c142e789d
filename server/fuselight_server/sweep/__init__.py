"""Sweeps: every model of a suite checked, compiled, benchmarked or tuned, on this machine or over a Ray cluster."""
