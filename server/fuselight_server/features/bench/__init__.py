"""Benchmarks for the client: lenses, hovers, the page and its history."""
