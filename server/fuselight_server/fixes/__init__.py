"""Finding → fixes, verified."""
