"""A global number is changed inside of the call, before it is used."""
import torch

GAIN = 1.0
STEP = 0.5

def bump():
    global GAIN
    GAIN = GAIN + STEP

# fuselight: amplified(f32[3])
# fuselight: amplified(f32[3])
# fuselight: amplified(f32[3])
@torch.compile
def amplified(x):
    bump()
    return x * GAIN

# fuselight: main(f32[3])
def main(x):
    global STEP
    total = torch.zeros_like(x)
    for number in range(4):
        STEP = 0.25 * number
        total = total + amplified(x)
    return total

def probe_first():
    """output the first call uses the changed number"""
    return amplified(torch.ones(2))

def probe_calls():
    """state three calls"""
    return [amplified(torch.ones(2)) for _ in range(3)]

def probe_global():
    """state the global is a float after the calls"""
    amplified(torch.ones(1))
    return [type(GAIN).__name__, float(GAIN)]

def probe_set():
    """state the caller sets it to an integer"""
    global GAIN
    GAIN = 3
    return amplified(torch.arange(3.0))

def probe_main():
    """output of the loop"""
    return main(torch.ones(2))

def probe_integers():
    """dtype integers"""
    return amplified(torch.arange(3))
