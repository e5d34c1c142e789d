"""Runs a fix and decides what may be offered."""
