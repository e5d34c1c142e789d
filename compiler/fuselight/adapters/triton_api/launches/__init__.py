"""Launches of the user's own Triton kernels, on a machine without a GPU.

`stand_in.py` takes the place of the driver, `launcher.py` of a launch. `interpretation.py` computes what a launch
writes, with Triton's interpreter: `memory.py` checks each access before it happens, `python_form.py` makes a kernel run
as Python, `arithmetic.py` and `device_functions.py` are what the interpreter lacks. `record.py` is what is known of a
launch.

Invariant: no access leaves the memory of the launch's arguments, and no launch takes longer than its budget. What was
not computed is filled with finite numbers, and recorded as unknown.
"""
