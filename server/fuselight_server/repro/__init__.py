"""Small programs that show a fault of torch.compile.

Invariant: a program is offered only if a new process of Python has shown the fault with it, and none without compiled
code.
"""
