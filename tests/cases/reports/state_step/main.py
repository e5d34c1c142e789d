import torch
from torch import nn


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, beta1=0.9, beta2=0.99, warmup=10):
        super().__init__(params, dict(lr=lr, beta1=beta1, beta2=beta2, warmup=warmup))
        self._update = torch.compile(self._update_one)

    def _update_one(self, p, group):
    # warning: [FL102] "`Lion._update_one` is no longer compiled: it reached the recompile limit"
        state = self.state[p]
        state["step"] += 1
        m = state["momentum"]
        direction = (m * group["beta1"] + p.grad * (1 - group["beta1"])).sign()
        # warning: [FL201] "recompiled: p.grad was freed by `optimizer.zero_grad()`"
        lr = group["lr"] * min(1.0, state["step"] / group["warmup"])
        p.add_(direction * -lr)
        m.mul_(group["beta2"]).add_(p.grad, alpha=1 - group["beta2"])

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["momentum"] = torch.zeros_like(p)
                self._update(p, group)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Linear(8, 8, bias=False)
    optimizer = Lion(model.parameters())
    for _ in range(20):
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(model.weight.norm())
# run by: make corpora
