# truth: compiled code draws other random numbers than eager mode, of the same distributions
# stage: none
# seen: result 0: eager -0.0117885, compiled -0.0122611; result 1: eager 3.125, compiled 2.78125; result 2: eager -0.00213488, compiled -0.00947792; result 3:
import torch


def sample(logits):
    noise = torch.randn_like(logits)
    kept = torch.bernoulli(torch.sigmoid(logits))
    tokens = torch.randint(0, 7, (64,))
    return noise * kept, tokens, torch.nn.functional.dropout(logits, 0.3), torch.rand(32, 32) ** 2


def main():
    torch.manual_seed(0)
    results = torch.compile(sample)(torch.linspace(-2, 2, 4096).reshape(64, 64))
    return [value.double().mean() for value in results]


if __name__ == "__main__":
    print(main())
