"""Adapts torch: every private name of torch that Fuselight uses, each in a separate function.

Invariant: outside of this package and `virtual_gpu`, no code names a private attribute of torch. Each module holds one
group of names. If a torch lacks a name, the feature that needs it reports that, and the rest works. Tested with torch
2.11, 2.13, 2.14 and 2.15; other releases from 2.6 on lose single features.
"""
