"""Whether this interpreter can compile: what is there, what that means, and what to do about it.

Run by path with the user's Python (`worker/launch.py doctor`). Invariant: each check gives a `Check`, also where it
fails; a check that may hang or crash runs in a process of its own with a time limit; nothing of the user's runs.
"""

from fuselight.doctor.check import Check, Status

__all__ = ["Check", "Status"]
