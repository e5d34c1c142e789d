"""The long-lived process that never runs user code, and what it starts."""
