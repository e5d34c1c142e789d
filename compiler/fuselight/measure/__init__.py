"""Benchmarks: each configuration of a target in a process of its own, beside eager (docs/measuring.md)."""
