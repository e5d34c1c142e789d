"""What is printed contains braces, percent signs and formats."""
import contextlib
import io

import torch

# fuselight: noisy(f32[4])
@torch.compile
def noisy(x):
    total = x.sum()
    print("{loss} 100% {{", total, f"{total:+.2e}|{{{total:.1f}}}", "\\n{0}")
    return x - total

def _text(x):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        out = noisy(x)
    return [text.getvalue(), out.detach()]

def probe_plain():
    """output of text with braces"""
    return _text(torch.tensor([1.0, 2.0]))

def probe_to_stdout():
    """output that is not redirected"""
    return noisy(torch.tensor([1.0, 2.0]))

def probe_gradient_shown():
    """output the text of a tensor names its grad_fn"""
    return _text(torch.tensor([1.0, 2.0], requires_grad=True))

def probe_double():
    """output float64 is named in the text"""
    return _text(torch.tensor([1.0, 2.0], dtype=torch.float64))

def probe_half():
    """output bfloat16 is named in the text"""
    return _text(torch.tensor([1.0, 2.0], dtype=torch.bfloat16))

def probe_integer():
    """output int64 is formatted as a float"""
    return _text(torch.tensor([1, 2]))

def probe_negative_zero():
    """output negative zero"""
    return _text(torch.tensor(-0.0))

def probe_nan():
    """output NaN"""
    return _text(torch.tensor([float("nan"), 1.0]))

def probe_options():
    """output of the print options"""
    torch.set_printoptions(precision=2, sci_mode=True)
    try:
        return _text(torch.tensor([1.23456, 2.0]))
    finally:
        torch.set_printoptions(profile="default")
        torch.set_printoptions(sci_mode=None)

def probe_empty():
    """output input"""
    return _text(torch.zeros(0))

def probe_complex():
    """output complex has no format of that kind or another"""
    return _text(torch.tensor([1 + 1j]))
