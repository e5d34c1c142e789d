import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(16, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-3))
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=40)


@torch.compile(fullgraph=False)
def opt_step():
    optimizer.step()
    # warning: [FL102] "`Adam.step` is no longer compiled: it reached the recompile limit"
    # warning: [FL201] "recompiled: self.param_groups[0]['betas'][0] was 0.95, now 0.947975"
    # info: [GB0025] "graph break: torch's optimizers break the graph here by design"
    # info: [GB0007] "graph break: the learning rate scheduler wraps `optimizer.step`, which torch does not trace"


def train(steps):
    for step in range(steps):
        x = torch.randn(8, 16)
        loss = model(x).logsumexp(-1).mean()
        loss.backward()
        opt_step()
        optimizer.zero_grad()
        scheduler.step()
    return loss.item()


if __name__ == "__main__":
    print("loss", train(14))
# run by: make corpora
