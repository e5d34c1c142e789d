"""A lock is held around the computation, and the state changes under it."""
import threading
import torch

LOCK = threading.Lock()
SEEN = []

# fuselight: guarded(f32[3])
@torch.compile
def guarded(x):
    with LOCK:
        y = x * 2
        SEEN.append(LOCK.locked())
    return y, LOCK.locked()

def probe_lock():
    """state of the lock"""
    SEEN.clear()
    y, held = guarded(torch.ones(2))
    return y, held, list(SEEN), LOCK.locked()

def probe_exception():
    """state after an exception"""
    try:
        guarded(None)
    except Exception as e:
        return type(e).__name__, LOCK.locked()
