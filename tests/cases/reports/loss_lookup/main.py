"""The loss function is looked up by the name of the class, through a regular expression."""
import re

import torch
from torch import nn


def causal_loss(logits, labels):
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def token_loss(logits, labels):
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


LOSSES = {"ForCausalLM": causal_loss, "ForTokenClassification": token_loss}


class TinyForCausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.head = nn.Linear(8, 32)

    @property
    def loss_function(self):
        kind = re.findall(f"({'|'.join(LOSSES)})", type(self).__name__)[0]
        return LOSSES[kind]

    def forward(self, ids, labels=None):
        logits = self.head(self.embed(ids))
        return logits if labels is None else self.loss_function(logits, labels)


if __name__ == "__main__":
    model = torch.compile(TinyForCausalLM())
    ids = torch.randint(0, 32, (2, 8))
    model(ids, labels=ids).backward()
# run by: make corpora
