"""Graph breaks and code that is not compiled."""
