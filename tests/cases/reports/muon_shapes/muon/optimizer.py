import torch

from .ortho import newton_schulz


@torch.compile(fullgraph=True)
def apply_update(weight, update, lr, decay):
    scale = max(1.0, weight.size(0) / weight.size(1)) ** 0.5
    # warning: [FL201] "recompiled: weight.size(0) was 24, now 32; weight.size(1) was 16, now 24"
    weight.mul_(1 - lr * decay)
    weight.add_(update, alpha=-0.02 * scale)


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, decay=0.01):
        super().__init__(params, dict(lr=torch.tensor(lr), momentum=momentum, decay=decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "buffer" not in state:
                    state["buffer"] = torch.zeros_like(p.grad)
                buffer = state["buffer"].mul_(group["momentum"]).add_(p.grad)
                apply_update(p, newton_schulz(buffer), group["lr"], group["decay"])
                # error: [FL102] "`apply_update` reached the recompile limit, which is an error with fullgraph=True"
