"""Reading source without running it: fast parsers for reading, LibCST for edits. Never imports user code or torch."""
