# pytorch/pytorch#170477: a Python number times a learning rate in a compiled update
import math

import torch


class CautiousSGD:
    def __init__(self, params, lr, momentum=0.9):
        self.params = list(params)
        self.lr = lr
        self.momentum = momentum
        self.buffers = [torch.zeros_like(p) for p in self.params]
        self.compiled = torch.compile(self._update, fullgraph=True)

    @staticmethod
    def _update(param, grad, buffer, lr, momentum):
        buffer.lerp_(grad, 1 - momentum)  # warning: [FL201] "recompiled: grad.dim() was 2, now 1"
        scale = 0.2 * math.sqrt(max(param.shape))  # info: [FL301] "`buffer.size(0)` is fixed to 8"
        update = torch.where(buffer * grad > 0, buffer, 0.0)
        param.sub_(update * (scale * lr))  # warning: [FL201] "recompiled: lr was 0.1, now 0.0933013"

    @torch.no_grad()
    def step(self):
        for param, buffer in zip(self.params, self.buffers):
            self.compiled(param, param.grad, buffer, self.lr, self.momentum)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8)
    optimizer = CautiousSGD(model.parameters(), lr=0.1)
    for step in range(6):
        optimizer.lr = 0.1 * 0.5 * (1 + math.cos(math.pi * step / 6))
        loss = model(torch.randn(4, 8)).pow(2).mean()
        loss.backward()
        optimizer.step()
        model.zero_grad()
    print(loss.item())
# run by: make corpora
