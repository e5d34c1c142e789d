# truth: guards on modules are left out as the program asks, and the momentum is changed before the third call
# stage: capture
# seen: result 2: eager 0.675, compiled 0.375; result 3: eager 2.325, compiled 2.625
import torch


class Running(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.momentum = 0.5
        self.register_buffer("level", torch.zeros(4))

    @torch.no_grad()
    def follow(self, x):
        self.level.mul_(1 - self.momentum).add_(x * self.momentum)  # <-

    def forward(self, x):
        self.follow(x)
        return x - self.level


def main():
    running = Running()
    compiled = torch.compile(
        running, options={"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}
    )
    x = torch.arange(4.0)
    first, second = compiled(x), compiled(x)
    running.momentum = 0.1
    third = compiled(x)
    return first, second, third, running.level


if __name__ == "__main__":
    print(main())
