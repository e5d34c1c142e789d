"""Generated kernels for the client: lenses, hovers, their source."""
