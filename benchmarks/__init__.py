"""What the project promises about speed, memory and accuracy, measured: one module a promise, each with `rows()`."""
