"""Use cases: plain arguments in, data out; the terminal and the editor show it."""
