"""A program as many ranks: collectives by line with estimated times, and where ranks differ."""
