"""One run: the target, its state, its failures."""
