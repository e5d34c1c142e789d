"""What is printed forgets what it has shown."""
import torch

class Meter:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)

    def __str__(self):
        text = " ".join(f"{one:.1f}" for one in self.values)
        self.values = []
        return text

# fuselight: logged_scale(f32[3], Meter())
@torch.compile
def logged_scale(x, meter):
    y = x * 2
    meter.add(float(len(meter.values)))
    print("meter:", meter)
    return y + len(meter.values)

def probe_call():
    """output"""
    return logged_scale(torch.ones(2), Meter())

def probe_kept():
    """other what the meter keeps after three calls"""
    meter = Meter()
    for _ in range(3):
        logged_scale(torch.ones(1), meter)
    return meter.values

def probe_result():
    """other the result of the second call"""
    meter = Meter()
    logged_scale(torch.ones(1), meter)
    return logged_scale(torch.ones(1), meter)

def probe_filled():
    """other a meter that has values"""
    meter = Meter()
    meter.add(4.0)
    out = logged_scale(torch.zeros(1), meter)
    return [out, meter.values]
