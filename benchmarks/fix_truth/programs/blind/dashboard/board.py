"""Reads and writes the state of trackers; no directive runs it."""


def line(tracker):
    return "#" * tracker.updates + f" {tracker.updates:03d}"


def restore(tracker, state):
    for key, value in state.items():
        setattr(tracker, key, value)
