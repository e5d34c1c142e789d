"""A file is read at the start, a random file name is made, and the environment is asked."""
import os
import tempfile
import torch

PATH = os.path.join(tempfile.mkdtemp(), "count.txt")

# fuselight: counted(f32[3])
@torch.compile
def counted(x):
    with open(PATH, "a") as file:
        file.write("call\n")
    return x * 2

# fuselight: asked(f32[3])
@torch.compile
def asked(x):
    if os.environ.get("LOUD_TEST") == "1":
        print("loud", x.shape[0])
    y = x + 1
    with open(PATH, "a") as file:
        file.write(f"{x.shape[0]}\n")
    return y

def _lines():
    with open(PATH) as file:
        return file.read()

def probe_counted():
    """state of the file"""
    open(PATH, "w").close()
    out = [counted(torch.ones(2)), counted(torch.ones(3))]
    return out, _lines()

def probe_counted_error():
    """state a call that fails has written"""
    open(PATH, "w").close()
    try:
        counted(None)
    except TypeError:
        return _lines()

def probe_asked():
    """state of the file and the environment"""
    open(PATH, "w").close()
    out = [asked(torch.ones(2))]
    os.environ["LOUD_TEST"] = "1"
    try:
        out.append(asked(torch.ones(2)))
    finally:
        del os.environ["LOUD_TEST"]
    return out, _lines()

def probe_asked_error():
    """state a call that fails has not written"""
    open(PATH, "w").close()
    try:
        asked(None)
    except Exception:
        return _lines()
