"""A rollout step stores its loss in the state that it was given."""
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.policy = nn.Linear(dim, 2)
        self.value = nn.Linear(dim, 1)

    def forward(self, state):
        logits = self.policy(state["obs"])
        state["value"] = self.value(state["obs"])  # warning: [FL201] "recompiled: len(state) was 1, now 3"
        state["loss"] = logits.logsumexp(dim=-1).mean() + state["value"].square().mean()
        return state


if __name__ == "__main__":
    agent = torch.compile(Agent(), backend="eager")
    state = {"obs": torch.randn(4, 8)}
    for step in range(4):
        state = agent(state)
        state["loss"].backward()
    print(sorted(state))
# run by: make corpora
