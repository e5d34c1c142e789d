"""The face for coding agents: a server of the Model Context Protocol (docs/agents.md)."""
