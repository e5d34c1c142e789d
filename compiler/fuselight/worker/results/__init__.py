"""Results of a program's compiled calls, compared with those of the same calls in eager mode and in float64.

Invariant: the program goes on with the results of its own compiled code, as if nothing had been compared.
"""
