"""A notebook as one Python module, and which line of it is which line of which cell."""
