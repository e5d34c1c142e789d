"""The weight decay of AdamW follows a schedule, and the step is compiled."""
import math

import torch
from torch import nn

STEPS = 12


def cosine(step, start, end):
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * step / STEPS))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-3), weight_decay=0.04)

    @torch.compile(fullgraph=False, backend="eager")
    def update():
        optimizer.step()
        # warning: [FL201] "recompiled: self.param_groups[0]['weight_decay'] was 0.04, now 0.0461334"
        # info: [GB0025] "graph break: torch's optimizers break the graph here by design"

    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["weight_decay"] = cosine(step, 0.04, 0.4)
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        update()
        optimizer.zero_grad()
    print(float(loss))
# run by: make corpora
