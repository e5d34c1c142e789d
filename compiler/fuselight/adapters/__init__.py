"""Private names of torch and Triton, each tolerating a version that lacks them."""
