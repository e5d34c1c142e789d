"""The `fuselight` command: one command a file, on the same core as the editor.

Invariant: stdout carries only what was asked for (a format, a program's own output); all else goes to stderr.
Exit codes: 0 nothing at warning or above, 1 findings, 2 could not be analyzed.
"""
