"""TorchInductor: artifacts, jobs, tools that it calls."""
