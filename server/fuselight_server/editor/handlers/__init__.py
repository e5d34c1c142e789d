"""The language server's features: one LSP feature a file, each convert in, ask, convert out."""
