"""The Model Context Protocol, whatever carries it and whatever its tools do."""
