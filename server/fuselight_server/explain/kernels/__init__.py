"""Report -> what kernels cost by line, and how they read: shared by the editor and the terminal.

Invariant: a kernel's bytes and time are shared between its lines and never counted twice: the sum over lines, with what
has no line, is the sum over kernels.
"""
