"""The formats people hold, one row for each layout of a family of models."""

from dataclasses import replace

from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.layers.bottleneck import POST, PRE
from patchwords.layers.conv import Standardise
from patchwords.layers.position import NoPosition, SinCos2D
from patchwords.weights import limits
from patchwords.weights.format import Format
from patchwords.weights.maps import beit, dalle, huggingface, official, swin, timm, torchvision

# The small numbers of timm and transformers where they rewrote BiT and the hybrids.
TIMM_PRE = replace(PRE, standardise=Standardise(to="variance", epsilon=1e-8))
TIMM_POST = replace(POST, epsilon=1e-5, standardise=Standardise(to="variance", epsilon=1e-8))

# Pixels of [0, 1] to 0.8 · x + 0.1, away from the edges of the logit-Laplace law; the published notebook's resizing.
DALLE = Preprocess(
    size=(256, 256), fit="crop", crop=1.0, interpolation="lanczos", mean=(-0.125,) * 3, deviation=(1.25,) * 3
)
ERF = {"activation": "gelu", "epsilon": 1e-6}
TANH = {"activation": "gelu-tanh", "epsilon": 1e-6}
SWIN = {"activation": "gelu", "epsilon": 1e-5}
HUB = {"activation": "gelu", "epsilon": 1e-12}
HUB_FILES = ("", ".safetensors", ".bin")  # a folder first
FLAX_FILES = (".npz",)
ATTENTION = "Transformer/encoderblock_{i}/MultiHeadDotProductAttention_"
HUGGING = tuple(f"{prefix}embeddings.patch_embeddings.projection.weight" for prefix in ("vit.", ""))
DISTILLATION = tuple(f"{prefix}embeddings.distillation_token" for prefix in ("deit.", ""))

FORMATS = (
    Format(
        name="official",
        families=("vit", "autoencoder", "hybrid-root"),
        rules=official.official,
        signs=(f"{ATTENTION}1/query/kernel",),
        heads=f"{ATTENTION}1/query/kernel",
        computes=TANH,
        preprocess=Preprocess(),
        refuses=limits.beyond_flax,
        suffixes=FLAX_FILES,
    ),
    Format(
        name="big_vision",
        families=("vit", "autoencoder", "hybrid-root"),
        rules=official.big_vision,
        signs=(f"{ATTENTION}0/query/kernel",),
        heads=f"{ATTENTION}0/query/kernel",
        computes=TANH,
        preprocess=Preprocess(),
        refuses=limits.beyond_flax,
        tableless=SinCos2D(),
        prefix="params/",
        suffixes=FLAX_FILES,
    ),
    Format(
        name="official",
        families=("resnet-post",),
        rules=official.official_resnet,
        signs=("conv_root/kernel",),
        without=("embedding/kernel",),
        preprocess=Preprocess(),
        suffixes=FLAX_FILES,
    ),
    Format(
        name="official",
        families=("resnet-pre",),
        rules=official.bit,
        signs=("resnet/group_norm/gamma",),
        preprocess=Preprocess(),
        suffixes=FLAX_FILES,
    ),
    Format(
        name="timm",
        families=("vit", "autoencoder", "deit", "distilled"),
        rules=timm.vit,
        signs=("blocks.{i}.attn.qkv.weight",),
        without=("patch_embed.backbone.conv.weight", *beit.FIRST),
        ignore=timm.IGNORE,
        computes=ERF,
        forms={"post": TIMM_POST},
        attends="patches",
        refuses=limits.beyond_timm,
    ),
    Format(
        name="timm",
        families=("hybrid-root",),
        rules=timm.hybrid_root,
        signs=("patch_embed.backbone.conv.weight",),
        computes=ERF,
        forms={"post": TIMM_POST},
        attends="patches",
        refuses=limits.beyond_timm,
    ),
    Format(
        name="timm",
        families=("resnet-pre", "resnet-post"),
        rules=timm.resnetv2,
        signs=("stages.{b}.blocks.{u}.conv3.weight",),
        forms={"pre": TIMM_PRE, "post": TIMM_POST},
    ),
    Format(
        name="huggingface",
        families=("vit",),
        rules=huggingface.vit,
        signs=HUGGING,
        without=("embeddings.norm.weight", huggingface.MASK_TOKEN, *DISTILLATION, *beit.BARE),
        said="vit",
        ignore=huggingface.SIMMIM,
        computes=HUB,
        refuses=limits.beyond_transformers,
        suffixes=HUB_FILES,
    ),
    Format(
        name="huggingface",
        families=("deit",),
        rules=huggingface.deit,
        signs=DISTILLATION,
        without=("cls_classifier.weight",),
        said="deit",
        asks="class",
        ignore=huggingface.SIMMIM,
        computes=HUB,
        refuses=limits.beyond_deit,
        suffixes=HUB_FILES,
    ),
    Format(
        name="huggingface",
        families=("distilled",),
        rules=huggingface.distilled,
        signs=("cls_classifier.weight",),
        said="deit",
        computes=HUB,
        refuses=limits.beyond_deit,
        suffixes=HUB_FILES,
    ),
    Format(
        name="huggingface",
        families=("autoencoder",),
        rules=huggingface.mae,
        signs=(huggingface.MASK_TOKEN,),
        said="vit_mae",
        bare=HUGGING,
        ignore=huggingface.DECODER,
        table="fixed-1d",
        computes=HUB,
        refuses=limits.beyond_class_token,
        suffixes=HUB_FILES,
    ),
    Format(
        name="huggingface",
        families=("resnet-pre",),
        rules=huggingface.bit,
        signs=("bit.embedder.convolution.weight",),
        forms={"pre": TIMM_PRE},
        suffixes=HUB_FILES,
    ),
    Format(
        name="torchvision",
        families=("vit", "autoencoder"),
        rules=torchvision.vit,
        signs=("encoder.layers.encoder_layer_{i}.self_attention.in_proj_weight",),
        computes=ERF,
        preprocess=IMAGENET,
        refuses=limits.beyond_torchvision,
    ),
    Format(
        name="timm",
        families=("beit",),
        rules=beit.timm,
        signs=beit.SIGNS,
        ignore=beit.BESIDE,
        tableless=NoPosition(),
        computes=ERF,
        refuses=limits.beyond_beit,
    ),
    Format(
        name="huggingface",
        families=("beit",),
        rules=beit.huggingface,
        signs=(f"beit.{beit.WHOLE}", *beit.BARE),
        said="beit",
        bare=(beit.WHOLE,),
        ignore=beit.HUB_BESIDE,
        tableless=NoPosition(),
        computes=HUB,
        refuses=limits.beyond_transformers_beit,
        suffixes=HUB_FILES,
    ),
    Format(
        name="dalle",
        families=("tokenizer",),
        rules=dalle.encoder,
        signs=dalle.SIGNS,
        preprocess=DALLE,
        suffixes=(".safetensors", ".pth", ".pt"),
    ),
    Format(
        name="timm",
        families=("swin",),
        rules=swin.timm,
        signs=("layers.{s}.blocks.{b}.attn.relative_position_bias_table",),
        without=("layers.0.downsample.norm.weight",),
        ignore=swin.MASKS,
        computes=SWIN,
        preprocess=replace(IMAGENET, crop=0.9, interpolation="bicubic"),
    ),
    Format(
        name="microsoft",
        families=("swin",),
        rules=swin.microsoft,
        signs=("layers.0.downsample.norm.weight",),
        ignore=swin.MASKS,
        computes=SWIN,
        preprocess=replace(IMAGENET, interpolation="bicubic"),
        refuses=limits.beyond_microsoft,
        suffixes=(".pth",),
    ),
    Format(
        name="huggingface",
        families=("swin",),
        rules=swin.huggingface,
        signs=tuple(f"{prefix}encoder.layers.{{s}}.blocks.{{b}}.layernorm_before.weight" for prefix in swin.HUGGING),
        said="swin",
        ignore=swin.HUB_ONLY,
        computes=SWIN,
        preprocess=replace(IMAGENET, fit="squash", interpolation="bicubic"),
        refuses=limits.beyond_transformers_swin,
        suffixes=HUB_FILES,
    ),
    Format(
        name="torchvision",
        families=("swin",),
        rules=swin.torchvision,
        signs=("features.{n}.{b}.attn.relative_position_bias_table",),
        computes=SWIN,
        preprocess=replace(IMAGENET, interpolation="bicubic"),
        refuses=limits.beyond_whole_windows,
    ),
)

NAMES = ("native", *dict.fromkeys(format.name for format in FORMATS))
