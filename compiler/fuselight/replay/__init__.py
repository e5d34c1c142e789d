"""What a program needs to run a tuned configuration: torch and the standard library, and nothing that measures."""
