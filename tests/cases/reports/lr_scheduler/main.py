"""The optimizer's step is compiled; a scheduler sets the learning rate after each step."""
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)


@torch.compile
def step():
    optimizer.step()
    # warning: [FL201] "recompiled: self.param_groups[0]['lr'] was 0.001, now 0.000993844"
    # info: [GB0025] "graph break: torch's optimizers break the graph here by design"
    # info: [GB0007] "graph break: the learning rate scheduler wraps `optimizer.step`, which torch does not trace"


for _ in range(12):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    step()
    scheduler.step()
    optimizer.zero_grad()
