"""What the page says of each figure, in English and in Chinese."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

from typing import NamedTuple

from patchwords.pages.both import Both
from patchwords.pages.wording import plural


class Words(NamedTuple):
    """A figure's heading and its explanation."""

    heading: Both
    explanation: Both


FIGURES: dict[str, Words] = {
    "filters": Words(
        Both("Filters", "滤波器"),
        Both(
            "The model's first step is a linear map of each patch. These are the principal components of its filters, "
            "each scaled to its own range, with its share of the variance. In a trained model they look like basis "
            "functions for the fine structure within a patch; random weights look like noise (Figure 7, left).",
            "模型的第一步是对每个图像块做线性映射。这里是这些滤波器的主成分，各自按自己的取值范围显示，并注明所占方差的比例。"
            "训练好的模型的主成分像一组描述图像块内部细节的基函数；随机权重则像噪声（论文图 7 左）。",
        ),
    ),
    "root": Words(
        Both("Filters", "滤波器"),
        Both(
            "What sees the pixels of this model is not a patch embedding but the root convolution of its ResNet. These "
            "are the principal components of that convolution's filters, each scaled to its own range, with its share "
            "of the variance (compare Figure 7, left).",
            "这个模型中直接看到像素的不是图像块嵌入，而是 ResNet 的第一层卷积。这里是该卷积的滤波器的主成分，"
            "各自按自己的取值范围显示，并注明所占方差的比例（参看论文图 7 左）。",
        ),
    ),
    "input": Words(
        Both("Filters", "滤波器"),
        Both(
            "What sees the pixels of a tokenizer is its input convolution. These are the principal components of its "
            "filters, each scaled to its own range, with its share of the variance (compare Figure 7, left).",
            "图像分词器中直接看到像素的是它的输入卷积。这里是该卷积的滤波器的主成分，"
            "各自按自己的取值范围显示，并注明所占方差的比例（参看论文图 7 左）。",
        ),
    ),
    "positions": Words(
        Both("Positions", "位置嵌入"),
        Both(
            "The model adds a vector to each patch for its place. Each tile stands at the place of one patch and shows "
            "how alike its vector is to those of all patches (the cosine). In a model that learned from crops, near "
            "patches are more alike than far ones, and often those of one row or column are (Figure 7, centre); where "
            "all pictures were always seen in the same place, there is no need for it.",
            "模型按位置给每个图像块加上一个向量。每个小格位于一个图像块的位置，显示它的向量与所有图像块的向量有多相似（余弦）。"
            "在用随机裁剪训练的模型中，相邻的图像块比相距远的更相似，同一行或同一列的也往往更相似（论文图 7 中）；"
            "如果每张图像总在同一位置出现，则不必如此。",
        ),
    ),
    "distance": Words(
        Both("Attention distance", "注意力距离"),
        Both(
            "How far each head looks: the mean distance, in pixels, between a patch and what it attends to, weighted "
            "by the attention. It plays the part of a receptive field. The dashed line is a head that looks at all "
            "patches alike. Trained models have near and far heads in the low layers, and far ones in the high layers "
            "(Figure 7, right, and Figure 11).",
            "每个注意力头看多远：一个图像块与它所关注的图像块之间的平均像素距离，以注意力为权重，作用类似感受野。"
            "虚线表示对所有图像块一视同仁的头。训练好的模型在低层既有看近处的头也有看远处的头，在高层则大多看远处"
            "（论文图 7 右与图 11）。",
        ),
    ),
    "rollout": Words(
        Both("Attention maps", "注意力图"),
        Both(
            "Where the output comes from: attention is averaged over the heads and followed through all layers back "
            "to the patches (attention rollout). Each picture stays bright where the model looks and goes dark "
            "elsewhere (Figures 6 and 14).",
            "输出来自图像的哪里：对各头的注意力取平均，再逐层追溯到图像块（attention rollout）。"
            "模型关注的地方保持明亮，其余变暗（论文图 6 与图 14）。",
        ),
    ),
    "evidence": Words(
        Both("Class maps", "类别图"),
        Both(
            "This model has no attention to follow. Instead, each picture stays bright where the evidence for the "
            "predicted class lies: where the last feature map adds to that class; what speaks against it is left out.",
            "这个模型没有可追溯的注意力。这里改为显示预测类别的依据在哪里：最后一层特征图中支持该类别的地方保持明亮，"
            "反对它的部分不显示。",
        ),
    ),
    "patch": Words(
        Both("One patch", "单个图像块"),
        Both(
            "Where one patch, the one in the red box, looks in one layer, head by head. All heads share one scale, "
            "finer for small weights. What does not go to patches goes to the special tokens, such as the class token.",
            "红框中的图像块在某一层里看向哪里，每个头一幅。所有头共用一个色阶，对小的权重划分更细。"
            "没有落在图像块上的注意力落在类别标记等特殊标记上。",
        ),
    ),
}

ABSENT = "这里没有这幅图，原因见上（英文）。"
NO_EVIDENCE = Both(
    "Where all is dark there is no evidence at all: a new classifier, which is all zeros, has none for any class.",
    "全暗表示没有任何依据：新的分类层全为零，对任何类别都没有依据。",
)


def at_the_top(height: int, width: int, classes: int) -> Both:
    """What the page is about."""
    return Both(
        f"What the model learned to see, and where it looks: pictures of {height}×{width} pixels, "
        f"{plural(classes, 'class', 'classes') if classes else 'no classifier'}.",
        f"模型学会了看什么，又看向哪里：图像 {height}×{width} 像素，{f'{classes} 个类别' if classes else '无分类层'}。",
    )


def near_and_far(near: float, far: float) -> Both:
    near, far = round(near, 3) + 0, round(far, 3) + 0  # no minus before a zero
    return Both(
        f"Here neighbours have {near:.3f} on average, patches at least half the picture apart {far:.3f}.",
        f"此处相邻图像块的平均相似度为 {near:.3f}，相距至少半幅图像的为 {far:.3f}。",
    )


def fewer(had: int, wanted: int) -> Both:
    return Both(
        f"There are only {plural(had, 'picture')} to take the mean of, not {wanted}.",
        f"可用的图像只有 {had} 张，而不是 {wanted} 张。",
    )


def means(first: str, second: str, pixels: tuple[float, float]) -> Both:
    """The mean distances of two models, and by how much they differ."""
    gap = pixels[1] - pixels[0]
    word, chinese = ("more", "多") if gap >= 0 else ("less", "少")
    return Both(
        f"Over all heads {first} has {pixels[0]:.1f} pixels on average and {second} has {pixels[1]:.1f}, "
        f"{abs(gap):.1f} {word}.",
        f"所有头的平均值：{first} 为 {pixels[0]:.1f} 像素，{second} 为 {pixels[1]:.1f} 像素，"
        f"后者{chinese} {abs(gap):.1f} 像素。",
    )


def other_sizes(first: str, second: str) -> Both:
    return Both(
        f"Their pictures differ in size ({first} and {second}), so a pixel of one is not a pixel of the other.",
        f"两者的图像大小不同（{first} 与 {second}），因此两边的像素并不等同。",
    )


def alone(other: str, reason: str) -> Both:
    """Why a second model has nothing to show beside the first."""
    return Both(f"{other} is not beside it: {reason}.", f"未与 {other} 并列：该模型没有注意力距离。")
