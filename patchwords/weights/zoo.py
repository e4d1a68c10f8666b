"""The public checkpoints we can fetch by name: what each one is, where it lies, and under which licence."""

from dataclasses import dataclass, replace

from patchwords.data.preprocess import IMAGENET, Preprocess

HALF = Preprocess()  # Google's models: [0, 255] to [-1, 1]
BICUBIC = replace(IMAGENET, interpolation="bicubic")  # Facebook's


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One published file; `mebibytes` is approximate (4 bytes a parameter), `sha256` is what is published of it."""

    name: str
    model: str
    address: str
    mebibytes: int
    sha256: str
    classes: int
    licence: str
    source: str
    preprocess: Preprocess


@dataclass(frozen=True, slots=True)
class Folder:
    """Where one publisher keeps one family of files."""

    address: str
    licence: str
    source: str
    preprocess: Preprocess = HALF

    def entry(self, name: str, model: str, mebibytes: int, classes: int, file: str, sha256: str = "") -> Entry:
        """One file of this folder."""
        return Entry(
            name=name,
            model=model,
            address=f"{self.address}/{file}",
            mebibytes=mebibytes,
            sha256=sha256,
            classes=classes,
            licence=self.licence,
            source=self.source,
            preprocess=self.preprocess,
        )


VIT_21K = Folder(
    "https://storage.googleapis.com/vit_models/imagenet21k",
    "Apache-2.0",
    "Dosovitskiy et al. 2021, google-research/vision_transformer",
)
VIT_1K = Folder(
    "https://storage.googleapis.com/vit_models/imagenet21k+imagenet2012",
    "Apache-2.0",
    "Dosovitskiy et al. 2021, google-research/vision_transformer",
)
AUGREG = Folder(
    "https://storage.googleapis.com/vit_models/augreg",
    "Apache-2.0",
    "Steiner et al. 2022, google-research/vision_transformer",
)
BIT = Folder(
    "https://storage.googleapis.com/bit_models",
    "Apache-2.0",
    "Kolesnikov et al. 2020, google-research/big_transfer",
)
DEIT = Folder(
    "https://dl.fbaipublicfiles.com/deit",
    "Apache-2.0",
    "Touvron et al. 2021, facebookresearch/deit",
    BICUBIC,
)
DEIT3 = replace(DEIT, source="Touvron et al. 2022, facebookresearch/deit", preprocess=replace(BICUBIC, crop=1.0))
BEIT = Folder(  # where its authors moved their files
    "https://github.com/addf400/files/releases/download/v1.0",
    "MIT",
    "Bao et al. 2022, microsoft/unilm",
    replace(HALF, fit="crop", crop=0.875, interpolation="bicubic"),
)
BEIT_LARGER = replace(BEIT, preprocess=replace(BEIT.preprocess, crop=1.0))
SWIN = Folder(
    "https://github.com/SwinTransformer/storage/releases/download/v1.0.0",
    "MIT",
    "Liu et al. 2021, microsoft/Swin-Transformer",
    BICUBIC,
)
SWIN_LATER = replace(SWIN, address="https://github.com/SwinTransformer/storage/releases/download/v1.0.8")
MAE = Folder(
    "https://dl.fbaipublicfiles.com/mae/pretrain",
    "CC-BY-NC-4.0",
    "He et al. 2022, facebookresearch/mae",
    BICUBIC,
)
TORCHVISION = Folder("https://download.pytorch.org/models", "BSD-3-Clause", "pytorch/vision", IMAGENET)
TORCHVISION_L16 = replace(TORCHVISION, preprocess=replace(IMAGENET, crop=224 / 242))
TORCHVISION_SWIN_T = replace(TORCHVISION, preprocess=replace(BICUBIC, crop=224 / 232))
TORCHVISION_SWIN_S = replace(TORCHVISION, preprocess=replace(BICUBIC, crop=224 / 246))
TORCHVISION_SWIN_B = replace(TORCHVISION, preprocess=replace(BICUBIC, crop=224 / 238))
SWAG = Folder(
    "https://download.pytorch.org/models",
    "CC-BY-NC-4.0",
    "Singh et al. 2022, facebookresearch/SWAG",
    replace(BICUBIC, crop=1.0),
)
HUGGING_FACE = Folder("https://huggingface.co", "Apache-2.0", "Dosovitskiy et al. 2021, huggingface.co/google")

# A table, so it keeps its rows; names of files are written whole, so that a search for one finds its row.
# fmt: off
ENTRIES: tuple[Entry, ...] = (
    VIT_21K.entry("vit-b16-i21k", "ViT-B/16", 394, 21843, "ViT-B_16.npz"),
    VIT_21K.entry("vit-b32-i21k", "ViT-B/32", 400, 21843, "ViT-B_32.npz"),
    VIT_21K.entry("vit-l16-i21k", "ViT-L/16", 1246, 21843, "ViT-L_16.npz"),
    VIT_21K.entry("vit-l32-i21k", "ViT-L/32", 1255, 21843, "ViT-L_32.npz"),
    VIT_21K.entry("vit-h14-i21k", "ViT-H/14", 2519, 21843, "ViT-H_14.npz"),
    VIT_21K.entry("r50-vit-b16-i21k", "R50+ViT-B/16", 440, 21843, "R50+ViT-B_16.npz"),
    VIT_1K.entry("vit-b16-i1k-224", "ViT-B/16", 330, 1000, "ViT-B_16-224.npz"),
    VIT_1K.entry("vit-b16-i1k-384", "ViT-B/16@384", 331, 1000, "ViT-B_16.npz"),
    VIT_1K.entry("vit-b32-i1k-384", "ViT-B/32@384", 337, 1000, "ViT-B_32.npz"),
    VIT_1K.entry("vit-l16-i1k-224", "ViT-L/16", 1161, 1000, "ViT-L_16-224.npz"),
    VIT_1K.entry("vit-l16-i1k-384", "ViT-L/16@384", 1162, 1000, "ViT-L_16.npz"),
    VIT_1K.entry("vit-l32-i1k-384", "ViT-L/32@384", 1170, 1000, "ViT-L_32.npz"),
    VIT_1K.entry("r50-vit-b16-i1k-384", "R50+ViT-B/16@384", 377, 1000, "R50+ViT-B_16.npz"),
    AUGREG.entry("augreg-ti16-i21k", "ViT-Ti/16", 37, 21843,
        "Ti_16-i21k-300ep-lr_0.001-aug_none-wd_0.03-do_0.0-sd_0.0.npz"),
    AUGREG.entry("augreg-s32-i21k", "ViT-S/32", 118, 21843,
        "S_32-i21k-300ep-lr_0.001-aug_none-wd_0.1-do_0.0-sd_0.0.npz"),
    AUGREG.entry("augreg-s16-i21k", "ViT-S/16", 115, 21843,
        "S_16-i21k-300ep-lr_0.001-aug_light1-wd_0.03-do_0.0-sd_0.0.npz"),
    AUGREG.entry("augreg-b32-i21k", "ViT-B/32", 398, 21843,
        "B_32-i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0.npz"),
    AUGREG.entry("augreg-b16-i21k", "ViT-B/16", 391, 21843,
        "B_16-i21k-300ep-lr_0.001-aug_medium1-wd_0.1-do_0.0-sd_0.0.npz"),
    AUGREG.entry("augreg-l16-i21k", "ViT-L/16", 1243, 21843,
        "L_16-i21k-300ep-lr_0.001-aug_strong1-wd_0.1-do_0.0-sd_0.0.npz"),
    AUGREG.entry("augreg-r-ti16-i21k", "R+ViT-Ti/16", 40, 21843,
        "R_Ti_16-i21k-300ep-lr_0.001-aug_none-wd_0.03-do_0.0-sd_0.0.npz"),
    AUGREG.entry("augreg-r26-s32-i21k", "R26+ViT-S/32", 170, 21843,
        "R26_S_32-i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0.npz"),
    AUGREG.entry("augreg-r50-l32-i21k", "R50+ViT-L/32", 1337, 21843,
        "R50_L_32-i21k-300ep-lr_0.001-aug_medium1-wd_0.1-do_0.1-sd_0.1.npz"),
    AUGREG.entry("augreg-ti16-i1k-384", "ViT-Ti/16@384", 22, 1000,
        "Ti_16-i21k-300ep-lr_0.001-aug_none-wd_0.03-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.03-res_384.npz"),
    AUGREG.entry("augreg-s32-i1k-384", "ViT-S/32@384", 87, 1000,
        "S_32-i21k-300ep-lr_0.001-aug_none-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.01-res_384.npz"),
    AUGREG.entry("augreg-s16-i1k-384", "ViT-S/16@384", 85, 1000,
        "S_16-i21k-300ep-lr_0.001-aug_light1-wd_0.03-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.03-res_384.npz"),
    AUGREG.entry("augreg-b32-i1k-384", "ViT-B/32@384", 337, 1000,
        "B_32-i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.01-res_384.npz"),
    AUGREG.entry("augreg-b16-i1k-384", "ViT-B/16@384", 331, 1000,
        "B_16-i21k-300ep-lr_0.001-aug_medium1-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.03-res_384.npz"),
    AUGREG.entry("augreg-l16-i1k-384", "ViT-L/16@384", 1162, 1000,
        "L_16-i21k-300ep-lr_0.001-aug_strong1-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.01-res_384.npz"),
    AUGREG.entry("augreg-r-ti16-i1k-384", "R+ViT-Ti/16@384", 24, 1000,
        "R_Ti_16-i21k-300ep-lr_0.001-aug_none-wd_0.03-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.03-res_384.npz"),
    AUGREG.entry("augreg-r26-s32-i1k-384", "R26+ViT-S/32@384", 139, 1000,
        "R26_S_32-i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.01-res_384.npz"),
    AUGREG.entry("augreg-r50-l32-i1k-384", "R50+ViT-L/32@384", 1255, 1000,
        "R50_L_32-i21k-300ep-lr_0.001-aug_medium1-wd_0.1-do_0.1-sd_0.1--imagenet2012-steps_20k-lr_0.01-res_384.npz"),
    DEIT.entry("deit-ti16", "DeiT-Ti/16", 22, 1000, "deit_tiny_patch16_224-a1311bcf.pth", "a1311bcf"),
    DEIT.entry("deit-s16", "DeiT-S/16", 84, 1000, "deit_small_patch16_224-cd65a155.pth", "cd65a155"),
    DEIT.entry("deit-b16", "DeiT-B/16", 330, 1000, "deit_base_patch16_224-b5f2ef4d.pth", "b5f2ef4d"),
    DEIT.entry("deit-b16-384", "DeiT-B/16@384", 331, 1000, "deit_base_patch16_384-8de9b5d1.pth", "8de9b5d1"),
    DEIT.entry("deit-ti16-distilled", "DeiT-Ti/16-distilled", 23, 1000,
        "deit_tiny_distilled_patch16_224-b40b3cf7.pth", "b40b3cf7"),
    DEIT.entry("deit-s16-distilled", "DeiT-S/16-distilled", 86, 1000,
        "deit_small_distilled_patch16_224-649709d9.pth", "649709d9"),
    DEIT.entry("deit-b16-distilled", "DeiT-B/16-distilled", 333, 1000,
        "deit_base_distilled_patch16_224-df68dfff.pth", "df68dfff"),
    DEIT.entry("deit-b16-distilled-384", "DeiT-B/16-distilled@384", 334, 1000,
        "deit_base_distilled_patch16_384-d0272ac0.pth", "d0272ac0"),
    DEIT3.entry("deit3-s16", "DeiT3-S/16", 84, 1000, "deit_3_small_224_1k.pth"),
    DEIT3.entry("deit3-s16-384", "DeiT3-S/16@384", 85, 1000, "deit_3_small_384_1k.pth"),
    DEIT3.entry("deit3-m16", "DeiT3-M/16", 148, 1000, "deit_3_medium_224_1k.pth"),
    DEIT3.entry("deit3-b16", "DeiT3-B/16", 330, 1000, "deit_3_base_224_1k.pth"),
    DEIT3.entry("deit3-b16-384", "DeiT3-B/16@384", 331, 1000, "deit_3_base_384_1k.pth"),
    DEIT3.entry("deit3-l16", "DeiT3-L/16", 1161, 1000, "deit_3_large_224_1k.pth"),
    DEIT3.entry("deit3-l16-384", "DeiT3-L/16@384", 1163, 1000, "deit_3_large_384_1k.pth"),
    DEIT3.entry("deit3-h14", "DeiT3-H/14", 2411, 1000, "deit_3_huge_224_1k.pth"),
    DEIT3.entry("deit3-s16-i21k-i1k", "DeiT3-S/16", 84, 1000, "deit_3_small_224_21k.pth"),
    DEIT3.entry("deit3-s16-i21k-i1k-384", "DeiT3-S/16@384", 85, 1000, "deit_3_small_384_21k.pth"),
    DEIT3.entry("deit3-m16-i21k-i1k", "DeiT3-M/16", 148, 1000, "deit_3_medium_224_21k.pth"),
    DEIT3.entry("deit3-b16-i21k-i1k", "DeiT3-B/16", 330, 1000, "deit_3_base_224_21k.pth"),
    DEIT3.entry("deit3-b16-i21k-i1k-384", "DeiT3-B/16@384", 331, 1000, "deit_3_base_384_21k.pth"),
    DEIT3.entry("deit3-l16-i21k-i1k", "DeiT3-L/16", 1161, 1000, "deit_3_large_224_21k.pth"),
    DEIT3.entry("deit3-l16-i21k-i1k-384", "DeiT3-L/16@384", 1163, 1000, "deit_3_large_384_21k.pth"),
    DEIT3.entry("deit3-h14-i21k-i1k", "DeiT3-H/14", 2411, 1000, "deit_3_huge_224_21k_v1.pth"),
    BEIT.entry("beit-b16", "BEiT-B/16", 351, 0, "beit_base_patch16_224_pt22k.pth"),
    BEIT.entry("beit-l16", "BEiT-L/16", 1188, 0, "beit_large_patch16_224_pt22k.pth"),
    BEIT.entry("beit-b16-i22k", "BEiT-B/16", 391, 21841, "beit_base_patch16_224_pt22k_ft22k.pth"),
    BEIT.entry("beit-l16-i22k", "BEiT-L/16", 1243, 21841, "beit_large_patch16_224_pt22k_ft22k.pth"),
    BEIT.entry("beit-b16-i22k-i1k", "BEiT-B/16", 330, 1000, "beit_base_patch16_224_pt22k_ft22kto1k.pth"),
    BEIT_LARGER.entry("beit-b16-i22k-i1k-384", "BEiT-B/16@384", 331, 1000, "beit_base_patch16_384_pt22k_ft22kto1k.pth"),
    BEIT.entry("beit-l16-i22k-i1k", "BEiT-L/16", 1161, 1000, "beit_large_patch16_224_pt22k_ft22kto1k.pth"),
    BEIT_LARGER.entry("beit-l16-i22k-i1k-384", "BEiT-L/16@384", 1163, 1000,
        "beit_large_patch16_384_pt22k_ft22kto1k.pth"),
    BEIT_LARGER.entry("beit-l16-i22k-i1k-512", "BEiT-L/16@512", 1166, 1000,
        "beit_large_patch16_512_pt22k_ft22kto1k.pth"),
    MAE.entry("mae-b16", "MAE-B/16", 327, 0, "mae_pretrain_vit_base.pth"),
    MAE.entry("mae-l16", "MAE-L/16", 1157, 0, "mae_pretrain_vit_large.pth"),
    MAE.entry("mae-h14", "MAE-H/14", 2406, 0, "mae_pretrain_vit_huge.pth"),
    SWIN.entry("swin-t-i1k", "Swin-T", 108, 1000, "swin_tiny_patch4_window7_224.pth"),
    SWIN.entry("swin-s-i1k", "Swin-S", 189, 1000, "swin_small_patch4_window7_224.pth"),
    SWIN.entry("swin-b-i1k", "Swin-B", 335, 1000, "swin_base_patch4_window7_224.pth"),
    SWIN.entry("swin-b-i1k-384", "Swin-B@384", 335, 1000, "swin_base_patch4_window12_384.pth"),
    SWIN_LATER.entry("swin-t-i22k", "Swin-T", 169, 21841, "swin_tiny_patch4_window7_224_22k.pth"),
    SWIN_LATER.entry("swin-s-i22k", "Swin-S", 250, 21841, "swin_small_patch4_window7_224_22k.pth"),
    SWIN.entry("swin-b-i22k", "Swin-B", 416, 21841, "swin_base_patch4_window7_224_22k.pth"),
    SWIN.entry("swin-b-i22k-384", "Swin-B@384", 417, 21841, "swin_base_patch4_window12_384_22k.pth"),
    SWIN.entry("swin-l-i22k", "Swin-L", 872, 21841, "swin_large_patch4_window7_224_22k.pth"),
    SWIN.entry("swin-l-i22k-384", "Swin-L@384", 873, 21841, "swin_large_patch4_window12_384_22k.pth"),
    SWIN_LATER.entry("swin-t-i22k-i1k", "Swin-T", 108, 1000, "swin_tiny_patch4_window7_224_22kto1k_finetune.pth"),
    SWIN_LATER.entry("swin-s-i22k-i1k", "Swin-S", 189, 1000, "swin_small_patch4_window7_224_22kto1k_finetune.pth"),
    SWIN.entry("swin-b-i22k-i1k", "Swin-B", 335, 1000, "swin_base_patch4_window7_224_22kto1k.pth"),
    SWIN.entry("swin-b-i22k-i1k-384", "Swin-B@384", 335, 1000, "swin_base_patch4_window12_384_22kto1k.pth"),
    SWIN.entry("swin-l-i22k-i1k", "Swin-L", 750, 1000, "swin_large_patch4_window7_224_22kto1k.pth"),
    SWIN.entry("swin-l-i22k-i1k-384", "Swin-L@384", 750, 1000, "swin_large_patch4_window12_384_22kto1k.pth"),
    TORCHVISION_SWIN_T.entry("torchvision-swin-t", "Swin-T", 108, 1000, "swin_t-704ceda3.pth", "704ceda3"),
    TORCHVISION_SWIN_S.entry("torchvision-swin-s", "Swin-S", 189, 1000, "swin_s-5e29d889.pth", "5e29d889"),
    TORCHVISION_SWIN_B.entry("torchvision-swin-b", "Swin-B", 335, 1000, "swin_b-68c6b09e.pth", "68c6b09e"),
    TORCHVISION.entry("torchvision-vit-b16", "ViT-B/16", 330, 1000, "vit_b_16-c867db91.pth", "c867db91"),
    TORCHVISION.entry("torchvision-vit-b32", "ViT-B/32", 337, 1000, "vit_b_32-d86f8d99.pth", "d86f8d99"),
    TORCHVISION_L16.entry("torchvision-vit-l16", "ViT-L/16", 1161, 1000, "vit_l_16-852ce7e3.pth", "852ce7e3"),
    TORCHVISION.entry("torchvision-vit-l32", "ViT-L/32", 1169, 1000, "vit_l_32-c7638314.pth", "c7638314"),
    SWAG.entry("torchvision-swag-b16-384", "ViT-B/16@384", 331, 1000, "vit_b_16_swag-9ac1b537.pth", "9ac1b537"),
    SWAG.entry("torchvision-swag-l16-512", "ViT-L/16@512", 1164, 1000, "vit_l_16_swag-4f3808c9.pth", "4f3808c9"),
    SWAG.entry("torchvision-swag-h14-518", "ViT-H/14@518", 2417, 1000, "vit_h_14_swag-80465313.pth", "80465313"),
    HUGGING_FACE.entry("hf-vit-b16-224", "ViT-B/16", 330, 1000,
        "google/vit-base-patch16-224/resolve/main/model.safetensors"),
    HUGGING_FACE.entry("hf-vit-b16-224-in21k", "ViT-B/16", 330, 0,
        "google/vit-base-patch16-224-in21k/resolve/main/model.safetensors"),
    BIT.entry("bit-s-r50x1", "BiT-R50x1", 97, 1000, "BiT-S-R50x1.npz"),
    BIT.entry("bit-s-r101x1", "BiT-R101x1", 170, 1000, "BiT-S-R101x1.npz"),
    BIT.entry("bit-m-r50x1", "BiT-R50x1", 260, 21843, "BiT-M-R50x1.npz"),
    BIT.entry("bit-m-r101x1", "BiT-R101x1", 333, 21843, "BiT-M-R101x1.npz"),
    BIT.entry("bit-m-r152x2", "BiT-R152x2", 1227, 21843, "BiT-M-R152x2.npz"),
    BIT.entry("bit-m-r152x4", "BiT-R152x4", 4224, 21843, "BiT-M-R152x4.npz"),
    BIT.entry("bit-m-r50x1-i1k", "BiT-R50x1@480", 97, 1000, "BiT-M-R50x1-ILSVRC2012.npz"),
    BIT.entry("bit-m-r101x1-i1k", "BiT-R101x1@480", 170, 1000, "BiT-M-R101x1-ILSVRC2012.npz"),
    BIT.entry("bit-m-r152x2-i1k", "BiT-R152x2@480", 902, 1000, "BiT-M-R152x2-ILSVRC2012.npz"),
    BIT.entry("bit-m-r152x4-i1k", "BiT-R152x4@480", 3573, 1000, "BiT-M-R152x4-ILSVRC2012.npz"),
)
# fmt: on

ZOO: dict[str, Entry] = {entry.name: entry for entry in ENTRIES}
