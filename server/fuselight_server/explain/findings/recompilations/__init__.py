"""Guards, recompilations, fixed values."""
