# huggingface/transformers#30351: Llama with a static cache, its forward compiled
import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache


def small_llama():
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=64,
        )
    ).eval()


@torch.no_grad()
def generate(model, forward, prompt, new_tokens=3):
    cache = StaticCache(config=model.config, max_cache_len=24)
    positions = torch.arange(prompt.size(1))[None]
    tokens = prompt
    for _ in range(new_tokens):
        out = forward(input_ids=tokens, position_ids=positions, past_key_values=cache)
        # warning: [FL201] "recompiled: input_ids.size(1) was 5, now 1"
        tokens = out.logits[:, -1:].argmax(-1)
        positions = positions[:, -1:] + 1
    return tokens


if __name__ == "__main__":
    torch.manual_seed(0)
    model = small_llama()
    forward = torch.compile(model.forward, backend="aot_eager")
    for length in (5, 8):
        print(generate(model, forward, torch.randint(0, 64, (1, length))))
# run by: make corpora
