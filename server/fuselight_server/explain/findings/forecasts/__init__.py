"""What other inputs will do."""
