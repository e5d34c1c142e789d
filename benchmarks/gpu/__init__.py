"""What only a machine with a GPU can measure: kernels of the real compile against those generated without it."""
