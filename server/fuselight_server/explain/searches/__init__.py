"""Searches for the fastest configuration: what is asked of them, what is kept of them, and how people read them."""
