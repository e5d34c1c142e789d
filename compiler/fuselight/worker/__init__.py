"""The worker: a guest in the user's interpreter that runs targets, one process a run.

`launch.py` is the entry, `host.py` the long-lived process that never runs user code, `child.py` one run.
"""
