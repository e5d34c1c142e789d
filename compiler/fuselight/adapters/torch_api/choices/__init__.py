"""The kernels that Inductor chooses between, and their launch configurations."""
