"""An agent's connection to a language server that runs: where it listens, and the bridge from stdin and stdout."""
