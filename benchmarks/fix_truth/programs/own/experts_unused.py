"""An expert that nothing is sent to has no gradient."""
import torch
from torch import nn


# fuselight: Router()(f32[4, 4], train=True)
class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x):
        if x[0, 0] > 0:
            x = self.first(x)
        else:
            x = self.second(x)
        return x


def step(x):
    torch.manual_seed(0)
    net = Router()
    ran = []
    net.first.register_forward_hook(lambda *_: ran.append("first"))
    net.second.weight.register_hook(lambda grad: ran.append("second weight"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.1, momentum=0.9)
    net(x).sum().backward()
    optimizer.step()
    return [one.grad for one in net.parameters()], list(net.parameters()), ran


def probe_first():
    """gradients: of the expert that is not used."""
    return step(torch.ones(4, 4))


def probe_second():
    """hooks: of the other one."""
    return step(-torch.ones(2, 4))


def probe_eval():
    """mode: evaluation."""
    torch.manual_seed(0)
    with torch.no_grad():
        return Router().eval()(torch.ones(1, 4))
