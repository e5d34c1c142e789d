"""A target in a live process: its file imported as the editor has it, its object and its calls built.

`importing.py` brings the file in, `devices.py` takes a missing GPU out of it, `present.py` describes one that is
there, `rungs.py` climbs the ladder of inputs, `calls.py` makes the calls. Nothing here knows of processes or pipes.
"""
