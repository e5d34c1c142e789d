# ruff: noqa: E501 - MODELS is a table
"""Compare Fuselight's graph breaks with torch's own record: no fewer, and no more.

    python benchmarks/accuracy.py [--models bert,gpt2] [--json]

For each architecture, in eval and in train mode, one fresh process runs the model under the Recorder and under
TORCH_TRACE at once: same inputs, grad mode, settings and calls. The universe is the distinct (file, line, first id) of the
`dynamo_graph_break_reason` records that say "Graph break in user code at". Prints recall and precision per model, of the
Report's breaks and, where the server is importable, of the findings made from them; both must be 1.00, else it exits with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for _part in ("compiler", "server"):
    sys.path.insert(0, str(ROOT / _part))

Key = tuple[str, int, str | None]
SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 101,
}  # fmt: skip
"""Sizes that most configurations share; what an architecture calls them otherwise stands in MODELS."""
T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "vocab_size": 101,
}
BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 101, "max_position_embeddings": 64,
}  # fmt: skip
VISION = {**SMALL, "image_size": 32, "patch_size": 8}
MODELS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "bert": ("BertConfig", "BertModel", SMALL, "text"),
    "roberta": ("RobertaConfig", "RobertaModel", SMALL, "text"),
    "distilbert": ("DistilBertConfig", "DistilBertModel", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 101}, "text"),
    "albert": ("AlbertConfig", "AlbertModel", {**SMALL, "embedding_size": 16}, "text"),
    "electra": ("ElectraConfig", "ElectraModel", {**SMALL, "embedding_size": 16}, "text"),
    "deberta_v2": ("DebertaV2Config", "DebertaV2Model", SMALL, "text"),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 101}, "text"),
    "gpt_neo": ("GPTNeoConfig", "GPTNeoModel", {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "vocab_size": 101}, "text"),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXModel", SMALL, "text"),
    "opt": ("OPTConfig", "OPTModel", {**SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32}, "text"),
    "bloom": ("BloomConfig", "BloomModel", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 101}, "text"),
    "llama": ("LlamaConfig", "LlamaForCausalLM", {**SMALL, "num_key_value_heads": 2}, "text"),
    "mistral": ("MistralConfig", "MistralModel", {**SMALL, "num_key_value_heads": 2}, "text"),
    "mixtral": ("MixtralConfig", "MixtralModel", {**SMALL, "num_key_value_heads": 2, "num_local_experts": 4}, "text"),
    "qwen2": ("Qwen2Config", "Qwen2Model", {**SMALL, "num_key_value_heads": 2}, "text"),
    "gemma": ("GemmaConfig", "GemmaModel", {**SMALL, "num_key_value_heads": 2, "head_dim": 8}, "text"),
    "phi": ("PhiConfig", "PhiModel", SMALL, "text"),
    "mamba": ("MambaConfig", "MambaModel", {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 101, "state_size": 4}, "text"),
    "longformer": ("LongformerConfig", "LongformerModel", {**SMALL, "attention_window": 4}, "text"),
    "reformer": ("ReformerConfig", "ReformerModel", {"hidden_size": 32, "attention_head_size": 8, "num_attention_heads": 4, "feed_forward_size": 64, "vocab_size": 101, "attn_layers": ["local", "local"], "axial_pos_embds": False, "local_attn_chunk_length": 4, "max_position_embeddings": 64, "is_decoder": False}, "text"),
    "t5": ("T5Config", "T5Model", T5, "pair"),
    "bart": ("BartConfig", "BartModel", BART, "pair"),
    "switch": ("SwitchTransformersConfig", "SwitchTransformersModel", {**T5, "num_experts": 2}, "pair"),
    "vit": ("ViTConfig", "ViTModel", VISION, "image"),
    "deit": ("DeiTConfig", "DeiTModel", VISION, "image"),
    "swin": ("SwinConfig", "SwinModel", {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}, "image"),
    "convnext": ("ConvNextConfig", "ConvNextModel", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, "image"),
}  # fmt: skip


@dataclass(frozen=True)
class Score:
    """How one run compares."""

    recorded: int
    found: int
    missing: tuple[Key, ...]
    surplus: tuple[Key, ...]

    @property
    def recall(self) -> float:
        """Share of torch's records that are told; 1 where there are none."""
        return 1 - len(self.missing) / self.recorded if self.recorded else 1.0

    @property
    def precision(self) -> float:
        """Share of what is told that torch recorded; 1 where nothing is told."""
        return 1 - len(self.surplus) / self.found if self.found else 1.0


def compare(recorded: set[Key], found: set[Key]) -> Score:
    """The score of one set against torch's."""
    return Score(
        len(recorded),
        len(found),
        tuple(sorted(recorded - found, key=str)),
        tuple(sorted(found - recorded, key=str)),
    )


def recorded_breaks(folder: Path) -> set[Key]:
    """The universe: what the logs in the folder say."""
    from fuselight.trace import Stats, open_log, read_events  # noqa: PLC0415 - the path is set above
    from fuselight.trace.events import GraphBroke  # noqa: PLC0415

    out: set[Key] = set()
    for log in folder.glob("*.log"):
        stats = Stats()
        for event in read_events(open_log(log), stats):
            if isinstance(event.fact, GraphBroke):
                where = event.fact.where
                out.add((where.path, where.line, event.fact.chain[0].gb_id))
        if stats.skipped:
            raise SystemExit(f"{log}: {stats.skipped} records could not be read: {stats.skips[:3]}")
    return out


def run_model(name: str, *, train: bool) -> dict[str, Any]:
    """In the child: run one model under the Recorder. torch's own log goes to TORCH_TRACE meanwhile."""
    import torch  # noqa: PLC0415 - after TORCH_TRACE is set
    import transformers  # noqa: PLC0415

    from fuselight.codec import encode  # noqa: PLC0415
    from fuselight.dynamo import Recorder, capture_only, versions  # noqa: PLC0415
    from fuselight.report import Report, TargetRef, Tier  # noqa: PLC0415

    torch.manual_seed(0)
    config_name, model_name, sizes, kind = MODELS[name]
    model = getattr(transformers, model_name)(getattr(transformers, config_name)(**sizes))
    model.train(train)
    error = None
    with Recorder(roots=(str(ROOT),)) as recorder, capture_only():
        compiled = torch.compile(model)
        try:
            with torch.enable_grad() if train else torch.no_grad():
                for index, rows in enumerate((2, 3)):
                    with recorder.call(index):
                        output = compiled(**_inputs(kind, rows))
                        if train:
                            _loss(output).backward()
        except Exception as raised:  # noqa: BLE001 - a model that fails still has records to compare
            error = f"{type(raised).__name__}: {str(raised).splitlines()[0]}"
    parts = recorder.parts()
    report = Report(
        versions=versions(),
        target=TargetRef(__file__, name, 1, "module"),
        tier=Tier.CAPTURE,
        generation=1,
        frames=parts.frames,
        compiles=parts.compiles,
        breaks=parts.breaks,
        recompiles=parts.recompiles,
        not_compiled=parts.not_compiled,
        problems=parts.problems,
        roots=(str(ROOT),),
    )
    return {"error": error, "report": encode(report)}


def _inputs(kind: str, rows: int) -> dict[str, Any]:
    import torch  # noqa: PLC0415 - after TORCH_TRACE is set

    ids = torch.randint(3, 100, (rows, 8))
    if kind == "image":
        return {"pixel_values": torch.randn(rows, 3, 32, 32)}
    return {"input_ids": ids, "decoder_input_ids": ids} if kind == "pair" else {"input_ids": ids}


def _loss(output: Any) -> Any:
    return next(value for value in output.values() if getattr(value, "requires_grad", False)).float().mean()


def break_keys(report: Any) -> set[Key]:
    """What the Report says."""
    return {(one.stack[-1].path, one.stack[-1].line, one.ids[0]) for one in report.breaks}


def finding_keys(report: Any) -> set[Key] | None:
    """What the findings say, None where the server cannot be imported."""
    try:
        from fuselight_server.findings import findings  # noqa: PLC0415 - not everywhere installed
    except ImportError:
        return None
    told = [one for one in findings(report) if one.code.startswith("GB")]
    places = {(one.stack[-1].path, one.stack[-1].line, one.ids[0]): one for one in report.breaks}
    return set(_told(told, places))


def _told(told: Iterable[Any], places: dict[Key, Any]) -> Iterator[Key]:
    """Each finding must speak of a recorded place: with its primary span, or with a related one."""
    for finding in told:
        spans = [finding.span, *(related.span for related in finding.related)]
        shown = {(span.path, span.line) for span in spans}
        matching = [key for key in places if key[:2] in shown and key[2] == finding.code]
        if matching:
            yield from matching
        else:
            yield (finding.span.path, finding.span.line, finding.code)


def measure(name: str, *, train: bool) -> dict[str, Any]:
    """One model in a fresh process: scores of the breaks and of the findings."""
    from fuselight.codec import decode  # noqa: PLC0415 - the path is set above
    from fuselight.report import Report  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        trace = Path(folder) / "trace"
        trace.mkdir()
        command = [
            sys.executable,
            __file__,
            "--child",
            name,
            "--answer",
            str(answer),
            *(["--train"] if train else []),
        ]
        done = subprocess.run(
            command,
            env={**os.environ, "TORCH_TRACE": str(trace), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{name}: the run itself failed\n{done.stderr[-4000:]}")
        got = json.loads(answer.read_text(encoding="utf-8"))
        report = decode(Report, got["report"])
        recorded = recorded_breaks(trace)
    keys = finding_keys(report)
    return {
        "error": got["error"],
        "problems": len(report.problems),
        "compiles": len(report.compiles),
        "breaks": compare(recorded, break_keys(report)),
        "findings": None if keys is None else compare(recorded, keys),
    }


def main() -> int:
    """Run, print the table, and answer with the exit code."""
    parser = argparse.ArgumentParser(description="Compare Fuselight's graph breaks with torch's own record.")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--child", choices=MODELS)
    parser.add_argument("--answer")
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()
    if options.child:
        Path(options.answer).write_text(
            json.dumps(run_model(options.child, train=options.train)), encoding="utf-8"
        )
        return 0
    totals = {"breaks": [0, 0, 0, 0], "findings": [0, 0, 0, 0]}
    print(f"{'model':<14} {'mode':<6} {'compiles':>8} {'records':>8} {'breaks R/P':>12} {'findings R/P':>13}")
    for name in options.models.split(","):
        for train in (False, True):
            row = measure(name, train=train)
            _print_row(name, row, train=train)
            for level, sums in totals.items():
                if row[level] is not None:
                    score: Score = row[level]
                    for i, value in enumerate(
                        (score.recorded, len(score.missing), score.found, len(score.surplus))
                    ):
                        sums[i] += value
    wrong = 0
    for level, (recorded, missing, found, surplus) in totals.items():
        if not recorded and not found:
            print(f"{level}: nothing was recorded or told")
            continue
        recall = 1 - missing / recorded if recorded else 1.0
        precision = 1 - surplus / found if found else 1.0
        print(f"{level}: recall {recall:.2f} ({recorded - missing} of {recorded}), precision {precision:.2f}")
        wrong += missing + surplus
    return 1 if wrong else 0


def _print_row(name: str, row: dict[str, Any], *, train: bool) -> None:
    scores = [
        "-" if row[level] is None else f"{row[level].recall:.2f}/{row[level].precision:.2f}"
        for level in ("breaks", "findings")
    ]
    mode = "train" if train else "eval"
    recorded = row["breaks"].recorded
    print(
        f"{name:<14} {mode:<6} {row['compiles']:>8} {recorded:>8} {scores[0]:>12} {scores[1]:>13} {row['error'] or ''}"
    )
    for level in ("breaks", "findings"):
        if row[level] is not None:
            for word in ("missing", "surplus"):
                for key in getattr(row[level], word)[:5]:
                    print(f"    {level} {word}: {key}")
    if row["problems"]:
        print(f"    {row['problems']} problems in the report")


if __name__ == "__main__":
    sys.exit(main())
