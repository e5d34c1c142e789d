"""The worker: runs inside the user's interpreter and executes targets, one process per run.

`launch.py` is the entry, `host.py` the long-lived process that never runs user code, `child.py` one run.
"""
