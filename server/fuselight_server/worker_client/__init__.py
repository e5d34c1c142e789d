"""Worker client."""
