"""Forces are the gradient of an energy, which is differentiated again in training."""
import torch
from torch import nn

# fuselight: Potential()(f32[3, 2], train=True)
# fuselight: Potential()(f32[3, 2], no_grad=False)
class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.stiffness = nn.Parameter(torch.tensor(1.5))

    def forward(self, positions):
        with torch.enable_grad():
            positions = positions.detach().requires_grad_(True)
            energy = (positions**4).sum() * self.stiffness
            (force,) = torch.autograd.grad(energy, positions, create_graph=self.training)
        return energy, -force

def _points():
    return torch.tensor([[1.0, -2.0], [0.5, 0.0]])

def probe_eval():
    """mode evaluation"""
    return Potential().eval()(_points())

def probe_train():
    """gradients of the force by the parameter"""
    net = Potential()
    energy, force = net(_points())
    (force**2).sum().backward()
    return [energy, force, net.stiffness.grad]

def probe_eval_gradients():
    """gradients of the energy in evaluation"""
    net = Potential().eval()
    energy, force = net(_points())
    return [energy.requires_grad, force.requires_grad]

def probe_no_grad():
    """mode without gradients outside"""
    with torch.no_grad():
        energy, force = Potential().eval()(_points())
    return [force, energy.requires_grad]

def probe_inference():
    """mode inference"""
    try:
        with torch.inference_mode():
            return Potential().eval()(_points())[1]
    except RuntimeError:
        return "Error"

def probe_frozen():
    """gradients a frozen parameter"""
    net = Potential()
    net.requires_grad_(False)
    return net(_points())[1].detach()

def probe_argument():
    """state the argument keeps its flag and gets no gradient"""
    x = _points().requires_grad_()
    out = Potential()(x)[1]
    return [x.grad is None, out.detach()]

def probe_integers():
    """dtype integers raise"""
    try:
        return Potential()(torch.ones(2, 2, dtype=torch.int64))
    except RuntimeError:
        return "RuntimeError"

def probe_hook():
    """hooks on the parameter run in the caller's backward only"""
    net = Potential()
    seen = []
    net.stiffness.register_hook(lambda grad: seen.append(float(grad)))
    energy, _ = net(_points())
    before = len(seen)
    energy.backward()
    return [before, len(seen)]
