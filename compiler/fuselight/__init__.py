"""Fuselight's compiler side: a guest in the user's interpreter that needs torch and the standard library alone."""
