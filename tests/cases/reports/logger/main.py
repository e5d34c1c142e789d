"""A generation step warns when a default is used."""
import logging

import torch
from torch import nn

logger = logging.getLogger(__name__)


class Generator(nn.Module):
    def __init__(self, vocab=32, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, pad_token_id=None):
        if pad_token_id is None:  # warning: [FL201] "recompiled: pad_token_id was None, now 0"
            pad_token_id = 0
            logger.warning(f"Setting `pad_token_id` to {pad_token_id} for open-end generation.")
            # warning: [GB0291] "graph break: logging calls are not traced"
        mask = (ids != pad_token_id).unsqueeze(-1)
        return self.head(self.embed(ids) * mask)


model = torch.compile(Generator().eval())
with torch.no_grad():
    ids = torch.randint(1, 32, (2, 6))
    model(ids)
    model(ids, pad_token_id=0)
# run by: make corpora
