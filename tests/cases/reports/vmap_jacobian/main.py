import torch
from torch import nn


def losses_of(model, x, y):
    out = model(x)
    return torch.stack([nn.functional.mse_loss(out[:, 0], y[:, 0]), nn.functional.l1_loss(out[:, 1], y[:, 1])])


def jacobian(losses, params):
    def backward(weights):
        return torch.autograd.grad(losses, params, weights, retain_graph=True)
        # error: [FL401] "RuntimeError: It looks like you're trying to call a compiled backward function within vmap/grad/vjp, which isn't supported. Try wrapping vmap inside torch.compile, or skip compiling the backward function"

    return torch.vmap(backward)(torch.eye(len(losses)))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2)))
    losses = losses_of(model, torch.randn(10, 6), torch.randn(10, 2))
    rows = jacobian(losses, list(model.parameters()))
    print([row.shape for row in rows])
