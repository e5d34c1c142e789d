"""Fuselight's compiler side: a guest in the user's interpreter. It needs the standard library and torch, nothing else."""
