"""Benchmarks and searches: one process for each configuration."""
