"""The built-in suites: every model of PyTorch's public lists has a row, and every row is a file that can be read."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fuselight.shared.inputs import parse_directive
from fuselight.shared.suites import SIZES, SuiteRow, UnknownSuiteError, suite_rows, write_rows
from fuselight_server.source.document import read_source

NAME = "pytorch-163"
HUGGING_FACE = """
AlbertForMaskedLM AlbertForQuestionAnswering AllenaiLongformerBase BartForCausalLM BartForConditionalGeneration
BertForMaskedLM BertForQuestionAnswering BigBird BlenderbotForCausalLM BlenderbotForConditionalGeneration
BlenderbotSmallForCausalLM BlenderbotSmallForConditionalGeneration CamemBert DebertaForMaskedLM
DebertaForQuestionAnswering DebertaV2ForMaskedLM DebertaV2ForQuestionAnswering DistilBertForMaskedLM
DistilBertForQuestionAnswering DistillGPT2 ElectraForCausalLM ElectraForQuestionAnswering
GPT2ForSequenceClassification GPTJForCausalLM GPTJForQuestionAnswering GPTNeoForCausalLM
GPTNeoForSequenceClassification GoogleFnet LayoutLMForMaskedLM LayoutLMForSequenceClassification
M2M100ForConditionalGeneration MBartForCausalLM MBartForConditionalGeneration MT5ForConditionalGeneration
MegatronBertForCausalLM MegatronBertForQuestionAnswering MobileBertForMaskedLM MobileBertForQuestionAnswering
OPTForCausalLM PLBartForCausalLM PLBartForConditionalGeneration PegasusForCausalLM PegasusForConditionalGeneration
Reformer RobertaForCausalLM RobertaForQuestionAnswering Speech2Text2ForCausalLM T5ForConditionalGeneration T5Small
TrOCRForCausalLM XGLMForCausalLM XLNetLMHeadModel YituTechConvBert
"""
"""benchmarks/dynamo/huggingface_models_list.txt of PyTorch 2.0."""
NOT_RUN = """
Reformer BlenderbotForConditionalGeneration GPTNeoForCausalLM GPTNeoForSequenceClassification GPTJForCausalLM
GPTJForQuestionAnswering BigBird
"""
"""SKIP of benchmarks/dynamo/huggingface.py of PyTorch 2.0, and BigBird, which is not in its EXTRA_MODELS."""
TIMM = """
adv_inception_v3 beit_base_patch16_224 botnet26t_256 cait_m36_384 coat_lite_mini convit_base convmixer_768_32
convnext_base crossvit_9_240 cspdarknet53 deit_base_distilled_patch16_224 dla102 dm_nfnet_f0 dpn107
eca_botnext26ts_256 eca_halonext26ts ese_vovnet19b_dw fbnetc_100 fbnetv3_b gernet_l ghostnet_100 gluon_inception_v3
gmixer_24_224 gmlp_s16_224 hrnet_w18 inception_v3 jx_nest_base lcnet_050 levit_128 mixer_b16_224 mixnet_l mnasnet_100
mobilenetv2_100 mobilenetv3_large_100 mobilevit_s nfnet_l0 pit_b_224 pnasnet5large poolformer_m36 regnety_002
repvgg_a2 res2net101_26w_4s res2net50_14w_8s res2next50 resmlp_12_224 resnest101e rexnet_100 sebotnet33ts_256
selecsls42b spnasnet_100 swin_base_patch4_window7_224 swsl_resnext101_32x16d tf_efficientnet_b0 tf_mixnet_l tinynet_a
tnt_s_patch16_224 twins_pcpvt_base visformer_small vit_base_patch16_224 volo_d1_224 xcit_large_24_p8_224
"""
"""benchmarks/dynamo/timm_models_list.txt of PyTorch 2.0."""
TORCHBENCH = """
BERT_pytorch Background_Matting LearningToPaint Super_SloMo alexnet attention_is_all_you_need_pytorch dcgan demucs
densenet121 dlrm drq fastNLP_Bert functorch_dp_cifar10 functorch_maml_omniglot hf_Albert hf_Bart hf_Bert hf_BigBird
hf_DistilBert hf_GPT2 hf_GPT2_large hf_Longformer hf_Reformer hf_T5 hf_T5_large lennard_jones maml maml_omniglot
mnasnet1_0 mobilenet_v2 mobilenet_v2_quantized_qat mobilenet_v3_large moco nvidia_deeprecommender opacus_cifar10
phlippe_densenet phlippe_resnet pyhpc_equation_of_state pyhpc_isoneutral_mixing pyhpc_turbulent_kinetic_energy
pytorch_CycleGAN_and_pix2pix pytorch_stargan pytorch_struct pytorch_unet resnet18 resnet50 resnet50_quantized_qat
resnext50_32x4d shufflenet_v2_x1_0 soft_actor_critic speech_transformer squeezenet1_1 tacotron2 timm_efficientdet
timm_efficientnet timm_nfnet timm_regnet timm_resnest timm_vision_transformer timm_vision_transformer_large
timm_vovnet tts_angular vgg16 vision_maskrcnn yolov3
"""
"""Models of TorchBench at the end of 2022, without detectron2's and fambench_xlmr, which PyTorch's runner skipped."""
NOT_TRAINED = ("pyhpc_", "opacus_cifar10", "maml", "quantized_qat")
"""Parts of names in SKIP_TRAIN of benchmarks/dynamo/torchbench.py; quantized models did not run on a GPU."""


def names(group: str) -> set[str]:
    return {row.name for row in suite_rows(NAME) if row.group == group}


def present(size: str, *, training: bool = False) -> list[SuiteRow]:
    return [row for row in suite_rows(NAME, size=size, training=training) if not row.absent]


def test_the_models_are_those_of_pytorch_s_lists() -> None:
    rows = suite_rows(NAME)
    assert len(rows) == len({(row.group, row.name) for row in rows}) == 163
    assert Counter(row.group for row in rows) == {"huggingface": 46, "timm": 61, "torchbench": 56}
    assert names("huggingface") == set(HUGGING_FACE.split()) - set(NOT_RUN.split())
    assert names("timm") == set(TIMM.split())
    trained = {word for word in TORCHBENCH.split() if not any(part in word for part in NOT_TRAINED)}
    assert names("torchbench") == trained


def test_a_model_that_no_package_ships_says_so() -> None:
    for row in suite_rows(NAME):
        assert bool(row.absent) is not bool(row.text), row.name
        assert bool(row.absent) is not bool(row.packages), row.name
        assert bool(row.file) is not bool(row.absent), row.name


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_each_row_is_a_file_with_one_target_and_inputs(size: str, *, training: bool) -> None:
    rows = present(size, training=training)
    assert len({row.file for row in rows}) == len(rows)
    for row in rows:
        reading = read_source(f"/suite/{row.file}", row.text)
        assert reading.syntax_error is None, row.name
        assert not reading.directive_problems, row.name
        (target,) = [static_target for static_target in reading.targets if static_target.directives]
        (directive,) = target.directives
        parse_directive(directive.text)
        assert (target.name, row.target) == ("model", "model"), row.name
        module = row.file.rpartition("/")[2].removesuffix(".py")
        assert f"from {module}" not in row.text, row.name  # the file would import itself
        assert f"import {module}\n" not in row.text, row.name
        assert ("train=True" in directive.text) is training, row.name


@pytest.mark.parametrize("size", SIZES)
def test_rows_import_what_they_use_and_load_no_weights(size: str) -> None:
    for row in present(size):
        tree = ast.parse(row.text)
        imported = {
            (alias.asname or alias.name).partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        }
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        own = {"min", "channels", "model"}
        assert used - own == imported, row.name
        assert "from_pretrained" not in row.text, row.name
        assert "pretrained=True" not in row.text, row.name


def test_real_batches_are_in_the_inputs() -> None:
    for row in present("real"):
        line = next(line for line in row.text.splitlines() if line.startswith("# fuselight:"))
        shapes = [part.partition("]")[0] for part in line.split("[")[1:]]
        assert f"batch {row.batch}" in row.text, row.name
        if row.name != "vision_maskrcnn":  # a list of images
            assert shapes[0].partition(",")[0] == str(row.batch), row.name


def test_files_are_written_where_rows_say(tmp_path: Path) -> None:
    rows = suite_rows(NAME)
    paths = write_rows(rows, str(tmp_path))
    assert {row.file for row in rows if not row.absent} == set(paths)
    for row in rows:
        if not row.absent:
            assert Path(paths[row.file]) == tmp_path / row.file
            assert (tmp_path / row.file).read_text(encoding="utf-8") == row.text


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(UnknownSuiteError, match="`bert`: there is pytorch-163"):
        suite_rows("bert")
    with pytest.raises(UnknownSuiteError, match="`huge`: there are tiny and real"):
        suite_rows(NAME, size="huge")


def test_the_module_writes_a_suite_and_lists_what_is_absent(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fuselight.shared.suites", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run(NAME, "--out", str(tmp_path / "rows"))
    assert (done.returncode, len(list(tmp_path.rglob("*.py")))) == (0, len(present("tiny")))
    assert "dlrm: no package ships it" in done.stderr
    wrong = run("bert", "--out", str(tmp_path))
    assert (wrong.returncode, "no built-in suite `bert`" in wrong.stderr) == (2, True)
    (tmp_path / "file").touch()
    assert run(NAME, "--out", str(tmp_path / "file")).returncode == 2
