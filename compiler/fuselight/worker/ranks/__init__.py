"""A target as each rank of a world: one process for each rank, one report of all."""
