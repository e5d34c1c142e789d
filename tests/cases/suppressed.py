"""`suppress_errors`: the compiler fails, torch continues in eager mode, and only a finding reports it."""

import enum

import torch

torch._dynamo.config.suppress_errors = True


class Mode(enum.Enum):
    FAST = 1


# fuselight: no_such_mode(f32[4])
def no_such_mode(x):
# error(2.13, 2.14, 2.15): [FL105] "the compiler failed and torch fell back to eager"
# hint(2.11): [FL106] "nothing to compile in `no_such_mode`: its first call ran no tensor operators"
    try:
        return x * Mode(7).value
    except ValueError:
        return x
