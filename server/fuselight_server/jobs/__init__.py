"""Jobs that ran elsewhere, from the files that they left."""
