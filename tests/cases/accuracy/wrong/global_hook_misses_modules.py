# truth: a forward hook for all modules that is registered later runs for the outer module only, not for those inside
# stage: capture
# seen: result 1: eager 81, compiled 9
import torch
from torch.nn.modules.module import register_module_forward_hook


def main():
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.fill_(0.5)
        layer.bias.zero_()
    model = torch.compile(torch.nn.Sequential(layer, torch.nn.Identity()))
    x = torch.tensor([[1.0, 2.0, 3.0]])
    plain = model(x).detach()
    handle = register_module_forward_hook(lambda module, args, output: output * 3.0)
    try:
        hooked = model(x).detach()  # <-
    finally:
        handle.remove()
    return plain, hooked


if __name__ == "__main__":
    print(main())
