"""Two jobs, compared."""
