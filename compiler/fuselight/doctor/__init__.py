"""Checks whether this interpreter can compile: what is installed, what that means, and what to do about it.

The user's Python runs it by path (`worker/launch.py doctor`). Invariant: each check returns a `Check`, even if it
fails; a check that may hang or crash runs in a separate process with a time limit; no user code runs.
"""

from fuselight.doctor.check import Check as Check
from fuselight.doctor.check import Status as Status
