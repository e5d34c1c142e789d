"""One side is a layer, the other hands the input on, or a layer of the caller's."""
import torch
from torch import nn

# fuselight: Block()(f32[2, 4], train=True)
class Block(nn.Module):
    def __init__(self, skip=None):
        super().__init__()
        torch.manual_seed(1)
        self.body = nn.Linear(4, 4)
        self.skip = skip or nn.Linear(4, 4, bias=False)

    def forward(self, x):
        return self.body(x) if x.mean() > 0 else self.skip(x)

def _both(net):
    return [net(torch.ones(1, 4)), net(-torch.ones(1, 4))]

def _outcome(net):
    try:
        return _both(net)
    except Exception:
        return "Error"

def probe_usual():
    """output both sides"""
    return _both(Block())

def probe_tied():
    """gradients of a weight that both sides share"""
    net = Block()
    net.skip.weight = net.body.weight
    (net(torch.ones(1, 4)).sum() + net(-torch.ones(2, 4)).sum()).backward()
    return [net.body.weight.grad, net.body.bias.grad]

def probe_identity():
    """output the identity"""
    return _outcome(Block(nn.Identity()))

def probe_caller_changes():
    """state the caller changes the result of the identity in place"""
    net, x = Block(nn.Identity()), -torch.ones(1, 4)
    try:
        net(x).add_(5)
    except Exception:
        return "Error"
    return x

def probe_autocast():
    """mode autocast"""
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        return _both(Block())

def probe_autocast_identity():
    """mode autocast, whose sides have two types"""
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        return _outcome(Block(nn.LayerNorm(4)))

def probe_dropout():
    """gradients a side without parameters, dropout that is off"""
    return _both(Block(nn.Dropout(0.5)).eval())

def probe_eval():
    """mode no gradients"""
    with torch.no_grad():
        return _both(Block().eval())

def probe_frozen():
    """gradients one side is frozen"""
    net = Block()
    net.skip.requires_grad_(False)
    out = net(-torch.ones(1, 4))
    return out
