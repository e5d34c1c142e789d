# truth: a chaotic recurrence: the rounding of the first steps grows to the size of the values in both modes
# stage: none
# seen: result 0: eager tensor([0.6576, 0.8797, 0.7019, 0.4038, 0.9575, 0.9747, 0.3514, 0.2133, 0.7840,         0.3225, 0.9679, 0.1826, 0.3705, 0.9720, 0.4943
import torch


def orbit(x):
    for _ in range(60):
        x = 3.9 * x * (1.0 - x)
    return x


def main():
    return torch.compile(orbit)(torch.linspace(0.1, 0.9, 32))


if __name__ == "__main__":
    print(main())
