"""A target in a live process: imports its file as the editor has it, and builds its object and its calls.

`importing.py` imports the file, `devices.py` replaces a missing GPU, `present_device.py` describes an installed GPU,
`rungs.py` climbs the ladder of inputs, `calls.py` makes the calls. Nothing here uses processes or pipes.
"""
