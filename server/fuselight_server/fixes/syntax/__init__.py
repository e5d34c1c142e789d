"""The user's code as a LibCST tree, and what is known of its names."""
