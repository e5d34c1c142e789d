"""The same targets with two releases of torch, compared."""
