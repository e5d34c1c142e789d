"""What runs on the far side of a sweep: the client of a worker, beside that worker."""
