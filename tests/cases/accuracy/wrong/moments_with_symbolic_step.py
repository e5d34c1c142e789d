# truth: the correction by a power of the step count is wrong with AOTAutograd's cache and the FX graph cache on
# stage: caches
# seen: result 0: eager 0.901373, compiled 0.898571
import torch


def correct(weight, moment, grad, count):
    count.add_(1)
    moment.mul_(0.8).add_(grad, alpha=0.2)
    steps = count.item()
    unbiased = moment / (1 - 0.8**steps)
    weight.sub_(unbiased.div(2.0).add_(1e-6), alpha=0.01 / (1 - 0.5**steps))  # <-


def train(weight, grad):
    weight, moment, count = weight.clone(), torch.zeros_like(weight), torch.tensor(0.0)
    for _ in range(5):
        correct(weight, moment, grad, count)
    return weight


def main():
    return torch.compile(train)(torch.linspace(-1, 1, 32), torch.linspace(1, 3, 32))


if __name__ == "__main__":
    print(main())
