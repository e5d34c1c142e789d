"""A lock is held around the computation of a method, which returns early and calls itself."""
import threading
import torch
from torch import nn

# fuselight: Shared()(f32[3])
class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.RLock()
        self.depth = 0

    def forward(self, x, times=0):
        """Locked."""
        with self.lock:
            if times > 3:
                return x
            y = x * 2
            if times:
                y = self.forward(y, times - 1)
        return y + 1

class Louder(Shared):
    def forward(self, x, times=0):
        with self.lock:
            return super().forward(x, times) * 10

def probe_usual():
    """output"""
    return Shared()(torch.ones(2)), Shared()(torch.ones(2), 2), Shared()(torch.ones(2), times=5)

def probe_louder():
    """other a subclass"""
    return Louder()(torch.ones(2)), Louder()(torch.ones(2), 2)

def probe_released():
    """state the lock is free after an error"""
    net = Shared()
    try:
        net(None)
    except TypeError:
        pass
    free = []
    thread = threading.Thread(target=lambda: free.append(net.lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    return free

def probe_doc():
    """other the docstring and the parameters"""
    import inspect
    return Shared.forward.__doc__, str(inspect.signature(Shared.forward))
