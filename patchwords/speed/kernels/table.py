"""Which kernels a fused block uses: the plain twins, or Triton's."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from patchwords.speed.kernels import eight, few, gelu, norm, pack, patches, product, sequence, short, windowed
from patchwords.speed.kernels.few import FewGradients
from patchwords.speed.kernels.gelu import GeluGradients
from patchwords.speed.kernels.norm import BetweenGradients, EightRows, Normed, NormGradients
from patchwords.speed.kernels.short import Attended, ShortGradients
from patchwords.speed.kernels.windowed import WindowGradients


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """One function a pass; what each computes stands in its plain twin."""

    patches: Callable[..., Tensor]
    product: Callable[..., Tensor]
    product_added: Callable[..., Tensor]
    product_qkv: Callable[..., Tensor]
    product_back: Callable[..., Tensor]
    product_sums: Callable[..., Tensor]
    sequence: Callable[..., Tensor]
    norm: Callable[..., Normed]
    add_norm: Callable[..., Normed]
    add: Callable[..., Tensor]
    norm_backward: Callable[..., NormGradients]
    between_backward: Callable[..., BetweenGradients]
    gelu: Callable[..., Tensor]
    linear_gelu: Callable[..., Tensor]
    gelu_backward: Callable[..., GeluGradients]
    pack: Callable[..., tuple[Tensor, Tensor]]
    short: Callable[..., Attended]
    short_eight: Callable[..., Tensor]
    short_backward: Callable[..., ShortGradients]
    few: Callable[..., Attended]
    few_backward: Callable[..., FewGradients]
    windowed: Callable[..., Tensor]
    windowed_backward: Callable[..., WindowGradients]
    norm_eight: Callable[..., EightRows]
    norm_both: Callable[..., tuple[Normed, EightRows]]
    add_norm_both: Callable[..., tuple[Normed, EightRows]]
    gelu_eight: Callable[..., EightRows]
    gelu_backward_both: Callable[..., tuple[GeluGradients, EightRows]]
    eight: Callable[..., EightRows]
    eight_turned: Callable[..., EightRows]
    product_eight: Callable[..., Tensor]
    product_eight_added: Callable[..., Tensor | None]


def plain() -> Kernels:
    """For any device and any precision."""
    return Kernels(
        patches=patches.patches,
        product=product.product,
        product_added=product.product_added,
        product_qkv=product.product_qkv,
        product_back=product.product_back,
        product_sums=product.product_sums,
        sequence=sequence.sequence,
        norm=norm.norm,
        add_norm=norm.add_norm,
        add=norm.add,
        norm_backward=norm.norm_backward,
        between_backward=norm.between_backward,
        gelu=gelu.gelu,
        linear_gelu=gelu.linear_gelu,
        gelu_backward=gelu.gelu_backward,
        pack=pack.pack,
        short=short.short,
        short_eight=short.short_eight,
        short_backward=short.short_backward,
        few=few.few,
        few_backward=few.few_backward,
        windowed=windowed.windowed,
        windowed_backward=windowed.windowed_backward,
        norm_eight=norm.norm_eight,
        norm_both=norm.norm_both,
        add_norm_both=norm.add_norm_both,
        gelu_eight=gelu.gelu_eight,
        gelu_backward_both=gelu.gelu_backward_both,
        eight=norm.rounded,
        eight_turned=eight.turned,
        product_eight=eight.product,
        product_eight_added=eight.product_added,
    )


def fast() -> Kernels:
    """Triton's and Gluon's, for GPUs."""
    from patchwords.speed.kernels import (  # Triton is not there without a GPU
        eight_triton,
        few_triton,
        gelu_triton,
        norm_triton,
        pack_triton,
        patches_triton,
        product_cublas,
        sequence_triton,
        short_hopper,
        windowed_triton,
    )

    products = product if product_cublas.missing() else product_cublas
    return Kernels(
        patches=patches_triton.patches,
        product=products.product,
        product_added=products.product_added,
        product_qkv=products.product_qkv,
        product_back=products.product_back,
        product_sums=products.product_sums,
        sequence=sequence_triton.sequence,
        norm=norm_triton.norm,
        add_norm=norm_triton.add_norm,
        add=norm_triton.add,
        norm_backward=norm_triton.norm_backward,
        between_backward=norm_triton.between_backward,
        gelu=gelu_triton.gelu,
        linear_gelu=gelu_triton.linear_gelu,
        gelu_backward=gelu_triton.gelu_backward,
        pack=pack_triton.pack,
        short=short_hopper.short,
        short_eight=short_hopper.short_eight,
        short_backward=short_hopper.short_backward,
        few=few_triton.few,
        few_backward=few_triton.few_backward,
        windowed=windowed_triton.windowed,
        windowed_backward=windowed_triton.windowed_backward,
        norm_eight=norm_triton.norm_eight,
        norm_both=norm_triton.norm_both,
        add_norm_both=norm_triton.add_norm_both,
        gelu_eight=gelu_triton.gelu_eight,
        gelu_backward_both=gelu_triton.gelu_backward_both,
        eight=gelu_triton.eight,
        eight_turned=eight_triton.turned,
        product_eight=eight.scaled_product,
        product_eight_added=product_cublas.product_eight_added,
    )
