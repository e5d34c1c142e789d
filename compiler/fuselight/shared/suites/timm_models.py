# ruff: noqa: E501 - TABLE is a table
"""The 61 models of timm, by the names of benchmarks/dynamo/timm_models_list.txt of PyTorch 2.0.

Batch sizes are those of the list, divided as PyTorch's runner did; images have the size that timm's configuration of
the model names. The tiny form keeps the kinds of blocks: fewer of them where a model has many or wide ones, small
images where it takes any.
"""

from __future__ import annotations

from fuselight.shared.suites.models import Form, SuiteModel

GROUP = "timm"
TINY_BATCH = 2

TABLE: tuple[tuple[str, int, int, int, str], ...] = (
    ("adv_inception_v3", 128, 299, 96, ""),
    ("beit_base_patch16_224", 64, 224, 64, "img_size=64, embed_dim=48, depth=2, num_heads=4"),
    ("botnet26t_256", 128, 256, 64, "img_size=64"),
    ("cait_m36_384", 4, 384, 64, "img_size=64, embed_dim=48, depth=2, num_heads=4"),
    ("coat_lite_mini", 128, 224, 64, "img_size=64"),
    ("convit_base", 64, 224, 64, "img_size=64, embed_dim=64, depth=3, num_heads=4, local_up_to_layer=2"),
    ("convmixer_768_32", 32, 224, 64, ""),
    ("convnext_base", 64, 224, 64, "depths=(1, 1, 2, 1), dims=(16, 32, 64, 128)"),
    ("crossvit_9_240", 256, 240, 240, ""),
    ("cspdarknet53", 64, 256, 64, ""),
    ("deit_base_distilled_patch16_224", 64, 224, 64, "img_size=64, embed_dim=48, depth=2, num_heads=4"),
    ("dla102", 128, 224, 64, ""),
    ("dm_nfnet_f0", 128, 192, 64, ""),
    ("dpn107", 64, 224, 64, "k_sec=(1, 2, 2, 1)"),
    ("eca_botnext26ts_256", 128, 256, 64, "img_size=64"),
    ("eca_halonext26ts", 128, 256, 256, ""),
    ("ese_vovnet19b_dw", 256, 224, 64, ""),
    ("fbnetc_100", 512, 224, 64, ""),
    ("fbnetv3_b", 256, 224, 64, ""),
    ("gernet_l", 128, 256, 64, ""),
    ("ghostnet_100", 512, 224, 64, ""),
    ("gluon_inception_v3", 256, 299, 96, ""),
    ("gmixer_24_224", 128, 224, 64, "img_size=64"),
    ("gmlp_s16_224", 128, 224, 64, "img_size=64"),
    ("hrnet_w18", 128, 224, 64, ""),
    ("inception_v3", 128, 299, 96, ""),
    ("jx_nest_base", 32, 224, 64, "img_size=64"),
    ("lcnet_050", 256, 224, 64, ""),
    ("levit_128", 1024, 224, 224, ""),
    ("mixer_b16_224", 128, 224, 64, "img_size=64"),
    ("mixnet_l", 128, 224, 64, ""),
    ("mnasnet_100", 512, 224, 64, ""),
    ("mobilenetv2_100", 128, 224, 64, ""),
    ("mobilenetv3_large_100", 512, 224, 64, ""),
    ("mobilevit_s", 64, 256, 64, ""),
    ("nfnet_l0", 128, 224, 64, ""),
    ("pit_b_224", 64, 224, 64, "img_size=64, base_dims=(16, 16, 16), depth=(1, 2, 1), heads=(1, 2, 4)"),
    ("pnasnet5large", 16, 331, 96, ""),
    ("poolformer_m36", 64, 224, 64, ""),
    ("regnety_002", 1024, 224, 64, ""),
    ("repvgg_a2", 128, 224, 64, ""),
    ("res2net101_26w_4s", 128, 224, 64, "layers=(1, 2, 2, 1)"),
    ("res2net50_14w_8s", 128, 224, 64, "layers=(1, 2, 2, 1)"),
    ("res2next50", 128, 224, 64, "layers=(1, 2, 2, 1)"),
    ("resmlp_12_224", 128, 224, 64, "img_size=64"),
    ("resnest101e", 64, 256, 64, "layers=(1, 2, 2, 1)"),
    ("rexnet_100", 256, 224, 64, ""),
    ("sebotnet33ts_256", 64, 256, 64, "img_size=64"),
    ("selecsls42b", 128, 224, 64, ""),
    ("spnasnet_100", 128, 224, 64, ""),
    (
        "swin_base_patch4_window7_224", 64, 224, 56,
        "img_size=56, embed_dim=16, depths=(2, 2), num_heads=(1, 2)",
    ),
    ("swsl_resnext101_32x16d", 32, 224, 64, "layers=(1, 1, 1, 1), base_width=1"),
    ("tf_efficientnet_b0", 128, 224, 64, ""),
    ("tf_mixnet_l", 128, 224, 64, ""),
    ("tinynet_a", 128, 192, 64, ""),
    ("tnt_s_patch16_224", 128, 224, 64, "img_size=64, embed_dim=48, depth=2, num_heads_outer=4"),
    ("twins_pcpvt_base", 128, 224, 64, "img_size=64, embed_dims=(16, 32, 64, 128), num_heads=(1, 2, 4, 8), depths=(1, 1, 2, 1)"),
    ("visformer_small", 128, 224, 64, "img_size=64, embed_dim=96, depth=(2, 1, 1)"),
    ("vit_base_patch16_224", 64, 224, 64, "img_size=64, embed_dim=48, depth=2, num_heads=4"),
    ("volo_d1_224", 64, 224, 64, "img_size=64"),
    ("xcit_large_24_p8_224", 16, 224, 64, "img_size=64, embed_dim=64, depth=2, num_heads=4"),
)  # fmt: skip
"""Name; real batch size; width of real and of tiny images; what the tiny form changes."""


def models() -> tuple[SuiteModel, ...]:
    """All 61."""
    return tuple(
        SuiteModel(
            name,
            GROUP,
            ("timm",),
            "import timm",
            {
                "tiny": Form(created(name, changes), images(TINY_BATCH, tiny), TINY_BATCH),
                "real": Form(created(name), images(batch, real), batch),
            },
        )
        for name, batch, real, tiny, changes in TABLE
    )


def created(name: str, changes: str = "") -> str:
    """The expression that makes a model of timm."""
    return f'timm.create_model("{name}", pretrained=False{", " if changes else ""}{changes})'


def images(batch: int, width: int, channels: int = 3) -> str:
    """Square images, as a directive writes them."""
    return f"f32[{batch}, {channels}, {width}, {width}]"
