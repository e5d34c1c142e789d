# ruff: noqa: E501 - TABLE is a table
"""The 56 models of TorchBench on which torch.compile was introduced: those of its folder `models` that it could train.

PyTorch has no list of them: its runner took every model that TorchBench had at the end of 2022 and left out those that
`benchmarks/dynamo/torchbench.py` skips in training. That file's `maml` is a regular expression and leaves out
`maml_omniglot` and `functorch_maml_omniglot` too; the two quantized models did not run on a GPU. `hf_Bert_large`,
`hf_T5_base` and `resnet152` came with 2023: PyTorch's dashboards then count 59. Batch sizes are TorchBench's for
training, as on these dashboards.

Its sources are copies of research repositories; a row uses the package that ships the same model, and says how it
differs. A model that no package ships is absent: an implementation by somebody else would not be that model.
"""

from __future__ import annotations

from fuselight.shared.suites.hugging_face import PACKAGES, TINY, Entry, model_expression
from fuselight.shared.suites.models import Form, SuiteModel
from fuselight.shared.suites.timm_models import created, images

GROUP = "torchbench"
TINY_BATCH = 2

_VISION: tuple[tuple[str, int], ...] = (
    ("alexnet", 128),
    ("densenet121", 4),
    ("mnasnet1_0", 32),
    ("mobilenet_v2", 96),
    ("mobilenet_v3_large", 32),
    ("resnet18", 16),
    ("resnet50", 32),
    ("resnext50_32x4d", 8),
    ("shufflenet_v2_x1_0", 128),
    ("squeezenet1_1", 32),
    ("vgg16", 64),
)
"""Name, as torchvision names the function that makes it, and batch size."""
_TIMM: tuple[tuple[str, str, int, int, str], ...] = (
    ("timm_efficientnet", "mixnet_m", 32, 64, ""),
    ("timm_nfnet", "dm_nfnet_f0", 128, 64, ""),
    ("timm_regnet", "regnety_120", 32, 64, ""),
    ("timm_resnest", "resnest14d", 32, 64, ""),
    (
        "timm_vision_transformer",
        "vit_small_patch16_224",
        8,
        64,
        "img_size=64, embed_dim=48, depth=2, num_heads=4",
    ),
    (
        "timm_vision_transformer_large",
        "vit_giant_patch14_224",
        8,
        56,
        "img_size=56, embed_dim=48, depth=2, num_heads=4",
    ),
    ("timm_vovnet", "vovnet39a", 32, 64, ""),
)
"""Name; model of timm; batch size; width of tiny images; what the tiny form changes."""
_ALBERT_BASE: dict[str, object] = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
_BART_BASE: dict[str, object] = {"d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}  # fmt: skip
_BIG_BIRD: dict[str, object] = {"attention_type": "block_sparse"}
_LONGFORMER: dict[str, object] = {"attention_window": [512] * 12, "max_position_embeddings": 4098, "vocab_size": 50265, "type_vocab_size": 1}  # fmt: skip
_GPT2_LARGE: dict[str, object] = {"n_embd": 1280, "n_layer": 36, "n_head": 20}
_T5_LARGE: dict[str, object] = {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16}
_HUGGING_FACE: tuple[tuple[Entry, int], ...] = (
    (Entry("hf_Albert", "AlbertForMaskedLM", "Albert", _ALBERT_BASE, 512, 8), 30000),
    (Entry("hf_Bart", "BartForConditionalGeneration", "Bart", _BART_BASE, 512, 4), 50265),
    (Entry("hf_Bert", "BertForMaskedLM", "Bert", {}, 512, 4), 30522),
    (Entry("hf_BigBird", "BigBirdForMaskedLM", "BigBird", _BIG_BIRD, 1024, 2), 50358),
    (Entry("hf_DistilBert", "DistilBertForMaskedLM", "DistilBert", {}, 512, 8), 30522),
    (Entry("hf_GPT2", "GPT2LMHeadModel", "GPT2", {}, 512, 4), 50257),
    (Entry("hf_GPT2_large", "GPT2LMHeadModel", "GPT2", _GPT2_LARGE, 512, 4), 50257),
    (Entry("hf_Longformer", "LongformerForMaskedLM", "Longformer", _LONGFORMER, 1024, 2), 50265),
    (Entry("hf_Reformer", "ReformerForMaskedLM", "Reformer", {"num_buckets": 128}, 4096, 4), 320),
    (Entry("hf_T5", "T5ForConditionalGeneration", "T5", {}, 1024, 8), 32128),
    (Entry("hf_T5_large", "T5ForConditionalGeneration", "T5", _T5_LARGE, 512, 2), 32128),
)
"""Each model, and the number of its tokens."""
_OWN_TINY_LENGTH = {"hf_BigBird": 64, "hf_Reformer": 64}
"""Lengths of tiny inputs that other lengths do not fit: blocks of BigBird, positions of Reformer."""
_TINY_LENGTH = 16

_BERT = "BERT({vocabulary}, hidden={hidden}, n_layers={layers}, attn_heads={heads})"
_DEMUCS = 'Demucs(["drums", "bass", "other", "vocals"], channels={channels}, depth={depth}, lstm_layers=2, context=3, gelu=False, norm_starts=999, dconv_mode=0)'
_GROUP_NORM = "resnet18(norm_layer=lambda channels: GroupNorm(min(channels, 32), channels))"
_OTHERS: tuple[SuiteModel, ...] = (
    SuiteModel(
        "BERT_pytorch", GROUP, ("bert-pytorch",), "from bert_pytorch.model import BERT",
        {
            "tiny": Form(_BERT.format(vocabulary=101, hidden=32, layers=2, heads=4), "i64[2, 16] % 101, i64[2, 16] % 3", 2),
            "real": Form(_BERT.format(vocabulary=20005, hidden=768, layers=12, heads=12), "i64[16, 128] % 20005, i64[16, 128] % 3", 16),
        },
        note="the encoder, as PyTorch ran it, with random tokens",
    ),
    SuiteModel(
        "dcgan", GROUP, ("dcgan-pytorch",), "from types import SimpleNamespace\n\nfrom dcgan_pytorch import Discriminator",
        {
            "tiny": Form("Discriminator(SimpleNamespace(channels=3, image_size=64, negative_slope=0.2))", images(2, 64), 2),
            "real": Form("Discriminator(SimpleNamespace(channels=3, image_size=64, negative_slope=0.2))", images(32, 64), 32),
        },
        note="the discriminator of pytorch/examples as dcgan-pytorch ships it, which flattens its output",
    ),
    SuiteModel(
        "demucs", GROUP, ("demucs",), "from demucs.demucs import Demucs",
        {
            "tiny": Form(_DEMUCS.format(channels=8, depth=3), "f32[2, 2, 8192]", 2),
            "real": Form(_DEMUCS.format(channels=64, depth=6), "f32[4, 2, 426888]", 4),
        },
        note="demucs 4 with the options of its first version, without the augmentation that PyTorch ran before it",
    ),
    SuiteModel(
        "functorch_dp_cifar10", GROUP, ("torchvision",), "from torch.nn import GroupNorm\nfrom torchvision.models import resnet18",
        {"tiny": Form(_GROUP_NORM, images(2, 32), 2), "real": Form(_GROUP_NORM, images(64, 32), 64)},
    ),
    SuiteModel(
        "tacotron2", GROUP, ("tacotron2-model", "librosa"), "from tacotron2_model import Tacotron2",
        {
            "tiny": Form("Tacotron2(symbols_embedding_dim=32, encoder_embedding_dim=32, attention_rnn_dim=32, attention_dim=16, decoder_rnn_dim=32, prenet_dim=16, postnet_embedding_dim=32)", "(i64[2, 6] % 148, i64[2] % 1 + 6, f32[2, 80, 4], 6, i64[2] % 1 + 4)", 2),
            "real": Form("Tacotron2()", "(i64[64, 96] % 148, i64[64] % 1 + 96, f32[64, 80, 600], 96, i64[64] % 1 + 600)", 64),
        },
        note="sentences of 96 symbols and 600 frames instead of LJSpeech; the package makes its masks on a GPU",
    ),
    SuiteModel(
        "timm_efficientdet", GROUP, ("effdet", "timm"), "import effdet",
        {
            "tiny": Form('effdet.create_model("tf_efficientdet_d1", pretrained=False, pretrained_backbone=False, image_size=(128, 128))', images(2, 128), 2),
            "real": Form('effdet.create_model("tf_efficientdet_d1", pretrained=False, pretrained_backbone=False)', images(1, 640), 1),
        },
        note="the detector without the loss that PyTorch ran with it",
    ),
    SuiteModel(
        "tts_angular", GROUP, ("coqui-tts", "torchaudio", "torchcodec"), "from TTS.encoder.models.lstm import LSTMSpeakerEncoder",
        {
            "tiny": Form("LSTMSpeakerEncoder(40, proj_dim=32, lstm_dim=48, num_lstm_layers=3)", "f32[2, 40, 10]", 2),
            "real": Form("LSTMSpeakerEncoder(40, proj_dim=256, lstm_dim=768, num_lstm_layers=3)", "f32[64, 40, 50]", 64),
        },
        note="the speaker encoder of Mozilla TTS as coqui-tts continues it",
    ),
    SuiteModel(
        "vision_maskrcnn", GROUP, ("torchvision",), "from torchvision.models.detection import maskrcnn_resnet50_fpn",
        {
            "tiny": Form("maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, min_size=64, max_size=64, rpn_pre_nms_top_n_test=20, rpn_post_nms_top_n_test=4)", "[f32[3, 64, 64], f32[3, 64, 64]]", 2),
            "real": Form("maskrcnn_resnet50_fpn(weights=None, weights_backbone=None)", "[f32[3, 426, 640], f32[3, 480, 640], f32[3, 612, 612], f32[3, 375, 500]]", 4),
        },
        note="random images of four sizes of COCO; training needs boxes, which a directive cannot write",
    ),
    SuiteModel(
        "yolov3", GROUP, ("ultralytics",), "from ultralytics.nn.tasks import DetectionModel",
        {
            "tiny": Form('DetectionModel("yolov3-spp.yaml", verbose=False)', images(2, 64), 2),
            "real": Form('DetectionModel("yolov3-spp.yaml", verbose=False)', "f32[16, 3, 384, 512]", 16),
        },
        note="YOLOv3-SPP of the same authors, with the head of their later versions",
    ),
)  # fmt: skip
_ABSENT: dict[str, str] = {
    "Background_Matting": "no package ships it: it is code of the repository senguptaumd/Background-Matting",
    "LearningToPaint": "no package ships it: it is code of the repository megvii-research/ICCV2019-LearningToPaint",
    "Super_SloMo": "no package ships it: it is code of the repository avinashpaliwal/Super-SloMo",
    "attention_is_all_you_need_pytorch": "no package ships it: it is code of the repository jadore801120/attention-is-all-you-need-pytorch",
    "dlrm": "no package ships it: it is code of the repository facebookresearch/dlrm; torchrec has another DLRM",
    "drq": "no package ships it: it is code of the repository denisyarats/drq",
    "fastNLP_Bert": "fastNLP makes this model from a folder with trained weights only",
    "lennard_jones": "no package ships it: it is an example of functorch",
    "moco": "no package ships it: it is code of the repository facebookresearch/moco",
    "nvidia_deeprecommender": "no package ships it: it is code of the repository NVIDIA/DeepRecommender",
    "phlippe_densenet": "no package ships it: it is code of the UvA deep learning tutorials",
    "phlippe_resnet": "no package ships it: it is code of the UvA deep learning tutorials",
    "pytorch_CycleGAN_and_pix2pix": "no package ships it: it is code of the repository junyanz/pytorch-CycleGAN-and-pix2pix",
    "pytorch_stargan": "no package ships it: it is code of the repository yunjey/stargan",
    "pytorch_struct": "torch-struct ships the distributions, not the network NeuralCFG that PyTorch ran",
    "pytorch_unet": "no package ships it: it is code of the repository milesial/Pytorch-UNet",
    "soft_actor_critic": "no package ships it: it is code of TorchBench",
    "speech_transformer": "no package ships it: it is code of the repository kaituoxu/Speech-Transformer",
}  # fmt: skip


def models() -> tuple[SuiteModel, ...]:
    """All 56, in alphabetical order."""
    suite_models = [
        *(_vision(*entry) for entry in _VISION),
        *(_timm(*entry) for entry in _TIMM),
        *(_hugging_face(*entry) for entry in _HUGGING_FACE),
        *_OTHERS,
        *(SuiteModel(name, GROUP, absent=why) for name, why in _ABSENT.items()),
    ]
    return tuple(sorted(suite_models, key=lambda model: model.name.lower()))


def _vision(name: str, batch: int) -> SuiteModel:
    made_by, width = f"{name}()", 64
    forms = {
        "tiny": Form(made_by, images(TINY_BATCH, width), TINY_BATCH),
        "real": Form(made_by, images(batch, 224), batch),
    }
    return SuiteModel(name, GROUP, ("torchvision",), f"from torchvision.models import {name}", forms)


def _timm(name: str, variant: str, batch: int, tiny: int, changes: str) -> SuiteModel:
    real = 192 if variant == "dm_nfnet_f0" else 224
    forms = {
        "tiny": Form(created(variant, changes), images(TINY_BATCH, tiny), TINY_BATCH),
        "real": Form(created(variant), images(batch, real), batch),
    }
    return SuiteModel(name, GROUP, ("timm",), "import timm", forms)


def _hugging_face(entry: Entry, tokens: int) -> SuiteModel:
    kind, family, batch = entry.kind, entry.family, entry.batch
    tiny = {**TINY[family], **(entry.sizes if entry.name == "hf_BigBird" else {})}
    length = _OWN_TINY_LENGTH.get(entry.name, _TINY_LENGTH)
    inputs = _tokens(kind, tiny["vocab_size"], TINY_BATCH, length)
    forms = {
        "tiny": Form(model_expression(kind, family, tiny), inputs, TINY_BATCH),
        "real": Form(
            model_expression(kind, family, entry.sizes), _tokens(kind, tokens, batch, entry.length), batch
        ),
    }
    return SuiteModel(entry.name, GROUP, PACKAGES, f"from transformers import {family}Config, {kind}", forms)


def _tokens(kind: str, tokens: int, batch: int, length: int) -> str:
    """TorchBench gives tokens only, to both halves of an encoder and decoder."""
    ids = f"i64[{batch}, {length}] % {tokens}"
    pair = kind.endswith("ConditionalGeneration")
    return f"input_ids={ids}, decoder_input_ids={ids}" if pair else f"input_ids={ids}"
