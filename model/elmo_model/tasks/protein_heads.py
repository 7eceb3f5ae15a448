"""The two networks that were published with SeqVec, over the sum of its layers.

Heinzinger et al. 2019, BMC Bioinformatics 20:723; the modules and their names are those of
bio_embeddings 0.2.3, `extract/basic`. Their weights are not part of this project.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import relu

from elmo_model.checkpoints import pickles
from elmo_model.checkpoints.source import in_folder
from elmo_model.checkpoints.state_dict import Stored

STRUCTURES: Final = {"DSSP3": "HEC", "DSSP8": "GHIBESTC", "disorder": "-X"}
"""The classes of a residue by the name of their file, a letter each."""

LOCATIONS: Final = (
    *("Cell-Membrane", "Cytoplasm", "Endoplasmic reticulum", "Golgi - Apparatus"),
    *("Lysosome / Vacuole", "Mitochondrion", "Nucleus", "Peroxisome", "Plastid"),
    "Extra - cellular",
)
MEMBRANES: Final = ("Soluble", "Membrane bound")

_KERNEL: Final = 7  # residues that a convolution sees
_HIDDEN: Final = 32

HeadT = TypeVar("HeadT", bound=nn.Module)


class StructureHead(nn.Module):
    """Two convolutions over residues: structure in three and in eight classes, and disorder."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.elmo_feature_extractor = _convolution(width, _HIDDEN)
        self.dssp3_classifier = _convolution(_HIDDEN, len(STRUCTURES["DSSP3"]))
        self.dssp8_classifier = _convolution(_HIDDEN, len(STRUCTURES["DSSP8"]))
        self.diso_classifier = _convolution(_HIDDEN, len(STRUCTURES["disorder"]))

    @torch.inference_mode()
    def classes(self, residues: NDArray[Any]) -> dict[str, str]:
        """Map (L, width) to a string of L letters for each name of `STRUCTURES`."""
        if not len(residues):
            return dict.fromkeys(STRUCTURES, "")
        values = torch.from_numpy(residues).T[None, :, :, None]
        features = relu(self.elmo_feature_extractor(values))
        classifiers = (self.dssp3_classifier, self.dssp8_classifier, self.diso_classifier)
        return {
            name: "".join(letters[each] for each in classifier(features)[0, :, :, 0].argmax(0))
            for (name, letters), classifier in zip(STRUCTURES.items(), classifiers, strict=True)
        }


class LocationHead(nn.Module):
    """A layer over the mean of the residues: the place in the cell, and membrane or soluble."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = (nn.Linear(width, _HIDDEN), nn.Dropout(), nn.ReLU(), nn.BatchNorm1d(_HIDDEN))
        self.layer = nn.Sequential(*layers)
        self.loc_classifier = nn.Linear(_HIDDEN, len(LOCATIONS))
        self.mem_classifier = nn.Linear(_HIDDEN, len(MEMBRANES))

    @torch.inference_mode()
    def classes(self, residues: NDArray[Any]) -> tuple[str, str]:
        """Map (L, width) to the place in the cell and to membrane or soluble."""
        values = torch.from_numpy(residues)
        mean = values.mean(0, keepdim=True) if len(values) else values.sum(0, keepdim=True)
        hidden = self.layer(mean)
        location, membrane = self.loc_classifier(hidden), self.mem_classifier(hidden)
        return LOCATIONS[location.argmax()], MEMBRANES[membrane.argmax()]


def read_head(head: HeadT, path: Path) -> HeadT:
    """Return a head with the weights of a state dict, which may stand in a checkpoint.

    Raises CheckpointError for one of another network.
    """
    label = str(path)
    with in_folder(path.parent, [path.name]).open(path.name) as stream:
        values = pickles.read(stream, label)
    if isinstance(values, Mapping):
        values = values.get("state_dict", values)
    stored = Stored(label, pickles.state_of(values, label), "the published network over this model")
    # The count of batches of the batch norm, a scalar, is not used in inference.
    shapes = {name: each.shape for name, each in head.state_dict().items() if each.dim()}
    found = {name: stored.take(name, *shape) for name, shape in shapes.items()}
    head.load_state_dict(found, strict=False)
    return head.eval()


def _convolution(width: int, classes: int) -> nn.Sequential:
    """Return a convolution over residues, the first module of a sequence as it was published."""
    return nn.Sequential(nn.Conv2d(width, classes, (_KERNEL, 1), padding=(_KERNEL // 2, 0)))
