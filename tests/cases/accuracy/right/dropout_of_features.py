# truth: compiled code draws other random numbers for dropout
# stage: none
# seen: result 0: eager 1.42857, compiled 0
import torch


def features(x, weight):
    hidden = torch.relu(x @ weight)
    return torch.nn.functional.dropout(hidden, 0.3, training=True)


def main():
    torch.manual_seed(5)
    return torch.compile(features)(torch.ones(4, 8), torch.eye(8))


if __name__ == "__main__":
    print(main())
