"""A hook projects actions into their space if they are outside of it."""
import torch
from torch import nn

from specs import Bounded

SPEC = Bounded(-1.0, 1.0)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, obs):
        return self.net(obs)


def safe_action(module, args, output):
    return SPEC.project(output)


if __name__ == "__main__":
    actor = Actor()
    actor.register_forward_hook(safe_action)
    policy = torch.compile(actor)
    for _ in range(3):
        policy(torch.randn(5, 4)).mean().backward()
# run by: make corpora
