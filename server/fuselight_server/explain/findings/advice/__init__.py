"""What to do about a recompilation: changes that were tried on the calls of the run, else what to expect."""
