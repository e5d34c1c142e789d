"""Edited text, traced again in a process that holds the arguments."""
