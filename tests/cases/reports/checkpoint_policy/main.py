"""A fresh policy function for selective checkpointing is passed at each call."""
import functools

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


def policy(saved, ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op in saved else CheckpointPolicy.PREFER_RECOMPUTE


def block(x):
    return torch.mm(x, x).sin().exp()


@torch.compile(backend="aot_eager")
def forward(x, contexts):
    return checkpoint(block, x, use_reentrant=False, context_fn=contexts)


if __name__ == "__main__":
    for _ in range(3):
        saved = [torch.ops.aten.mm.default]
        contexts = functools.partial(create_selective_checkpoint_contexts, functools.partial(policy, saved))
        x = torch.randn(4, 4, requires_grad=True)
        forward(x, contexts).sum().backward()
# run by: make corpora
