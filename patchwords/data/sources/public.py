"""The table of public data sets: where each is published, the SHA-256 of its files, and who reads it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchwords.data.sources import cifar, flowers102, folder, idx, pets
from patchwords.data.sources.source import Data
from patchwords.data.sources.split import Split

FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
OXFORD = "https://www.robots.ox.ac.uk/~vgg/data"


@dataclass(frozen=True)
class Public:
    """A public data set; files that are archives are unpacked, and the others laid beside their contents."""

    address: str  # of the folder that holds the files
    files: Mapping[str, str]  # SHA-256 by name
    read: Callable[[Path, Split | None], Data]
    folder: str = ""  # inside the archive
    classes: tuple[str, ...] = ()  # where the files have numbers only


PUBLIC = {
    "cifar10": Public(  # the binary form, which holds no pickles
        "https://www.cs.toronto.edu/~kriz",
        {"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
        cifar.read,
    ),
    "cifar100": Public(
        "https://www.cs.toronto.edu/~kriz",
        {"cifar-100-binary.tar.gz": "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"},
        cifar.read,
    ),
    "mnist": Public(
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        {
            "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
        idx.read,
    ),
    "fashion-mnist": Public(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        {
            "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
        idx.read,
        classes=FASHION,
    ),
    "pets": Public(
        f"{OXFORD}/pets/data",
        {
            "images.tar.gz": "67195c5e1c01f1ab5f9b6a5d22b8c27a580d896ece458917e61d459337fa318d",
            "annotations.tar.gz": "52425fb6de5c424942b7626b428656fcbd798db970a937df61750c0f1d358e91",
        },
        pets.read,
    ),
    "flowers102": Public(
        f"{OXFORD}/flowers/102",
        {
            "102flowers.tgz": "2d01ecc807db462958cfe3d92f57a8c252b4abd240eb955770201e45f783b246",
            "imagelabels.mat": "4903e94206bac23bf772aadf06451916df56b58fc483a62db32a97b82656651d",
            "setid.mat": "46b8678f91fd95d3c8f4feab80d271a6c834a1dd896fe29fd3e6ad9ce5c8dccd",
        },
        flowers102.read,
    ),
    "flower_photos": Public(
        "https://storage.googleapis.com/download.tensorflow.org/example_images",
        {"flower_photos.tgz": "4c54ace7911aaffe13a365c34f650e71dd5bf1be0a58b464e5a7183e3e595d9c"},
        folder.read,
        folder="flower_photos",
    ),
}
