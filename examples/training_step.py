"""One training step, compiled: `train=True` in the comment runs it with gradients and calls backward on the loss.

Fuselight shows a graph break where the loss is kept for a log: `losses.append(loss.item())` needs the value now.
"""

import torch
import torch.nn.functional as F
from torch import nn

losses = []


class Regressor(nn.Module):
    """Features (batch, 16) to one number each (batch,)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, features):
        return self.layers(features).squeeze(1)


model = Regressor()


# fuselight: loss_of(f32[32, 16], f32[32], train=True)
@torch.compile
def loss_of(features, wanted):
    """Mean squared error of one batch."""
    loss = F.mse_loss(model(features), wanted)
    losses.append(loss.item())
    return loss * 0.5


if __name__ == "__main__":
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(torch.randn(32, 16), torch.randn(32)).backward()
        optimizer.step()
    print(losses)
