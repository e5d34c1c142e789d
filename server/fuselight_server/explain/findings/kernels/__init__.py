"""Kernels and measured times as findings."""
