"""The tools, each over a use case of `commands/`."""
