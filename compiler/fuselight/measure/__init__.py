"""Benchmarks: each configuration of a target runs in its own process and is compared with eager (docs/measuring.md)."""
