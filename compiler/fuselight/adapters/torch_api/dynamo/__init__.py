"""TorchDynamo: frames, hooks, graphs, compile events."""
