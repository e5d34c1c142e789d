"""A report in text: f-strings of tensors with many formats, sys.stdout and a logger with braces."""
import logging
import sys
import torch

log = logging.getLogger("report")

# fuselight: formats(f32[3], 7)
@torch.compile
def formats(x, n):
    total = x.sum()
    print(f"{total!r}", f"{total:>10.2e}|", f"{n:x} {n:,}", f"{total=}")
    return x + n

# fuselight: percent(f32[3])
@torch.compile
def percent(x):
    print("%.2f of %s" % (x.max(), x.shape[0]), "{} {{}}".format(x.min()))
    return x - 1

# fuselight: streams(f32[3])
@torch.compile
def streams(x):
    sys.stdout.write("start\n")
    print("error", x.sum(), file=sys.stderr)
    log.error("sum %s {} %%", x.sum())
    return x * 2

# fuselight: nested(f32[3], {"a": 1, "b": [1, 2]})
@torch.compile
def nested(x, options):
    print(options["a"], options["b"], options, x.dtype, x.mean())
    return x * options["a"]

def probe_formats():
    """output"""
    with torch.no_grad():
        return formats(torch.tensor([1.0, 2.5]), 255), formats(torch.tensor([1.0, 2.5]), 1000)

def probe_percent():
    """output"""
    with torch.no_grad():
        return percent(torch.tensor([1.0, 2.5])), percent(torch.tensor([-1.0]))

def probe_streams():
    """output"""
    with torch.no_grad():
        return streams(torch.tensor([1.0, 2.5]))

def probe_nested():
    """output"""
    with torch.no_grad():
        return nested(torch.tensor([1.0]), {"a": 2, "b": []}), nested(torch.tensor([1.0]), {"a": 0.5, "b": None, "c": 1})

def probe_formats_options():
    """output options of printing"""
    torch.set_printoptions(precision=2, sci_mode=True)
    try:
        with torch.no_grad():
            return formats(torch.tensor([1 / 3]), 1)
    finally:
        torch.set_printoptions(profile="default")
