"""A policy loss uses another temperature where the advantage is positive."""
import torch


def gate(ratio, temperature):
    return torch.sigmoid(temperature * (ratio - 1.0)) * 4.0 / temperature
    # warning: [FL201] "recompiled: ratio.size(0) was 24, now 0"


@torch.compile(backend="aot_eager")
def policy_loss(logp, old_logp, advantages, mask):
# info: [FL101] "the rest of `policy_loss`, from line 19 on, is not compiled: torch cannot resume it after a graph break"
    ratio = (logp - old_logp).exp()
    loss = torch.empty_like(ratio)
    positive = (advantages > 0).unsqueeze(-1).expand_as(ratio)
    loss[positive] = gate(ratio[positive], 1.0)
    # warning: [GB0219] "graph break: the backend needs a shape from the data of a tensor"
    # warning: [GB0036] "graph break: the shape of `ratio[positive]` depends on the tensor's data"
    loss[~positive] = gate(ratio[~positive], 1.05)
    # warning: [GB0036] "graph break: the shape of `ratio[~positive]` depends on the tensor's data"
    loss = -loss * advantages.unsqueeze(-1)
    return (loss * mask).sum() / mask.sum().clamp(min=1.0)


if __name__ == "__main__":
    torch.manual_seed(0)
    for _ in range(3):
        logp = torch.randn(4, 6).log_softmax(dim=-1).requires_grad_()
        loss = policy_loss(logp, logp.detach() + 0.1, torch.randn(4), torch.ones(4, 6))
        loss.backward()
    print(float(loss))
