"""State in an object with slots."""
import torch

class State:
    __slots__ = ("step", "scale")

    def __init__(self):
        self.step = 0
        self.scale = 1.0

STATE = State()

# fuselight: advance(f32[3])
# fuselight: advance(f32[3])
# fuselight: advance(f32[3])
@torch.compile
def advance(x):
    STATE.step += 1
    STATE.scale *= 0.5
    return x * STATE.scale + STATE.step

def probe_state():
    """state of the object"""
    STATE.step, STATE.scale = 0, 1.0
    advance(torch.ones(1))
    advance(torch.ones(1))
    return STATE.step, STATE.scale, type(STATE.step).__name__, type(STATE.scale).__name__
