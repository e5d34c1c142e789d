"""What the server and the worker both know; standard library only."""
