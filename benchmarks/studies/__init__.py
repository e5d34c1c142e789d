"""Studies of many models or machines, each with a page in docs/results/: `make bench` runs none, and no test does."""
