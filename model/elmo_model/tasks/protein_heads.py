"""The two networks that were published with SeqVec, over the sum of its layers.

Heinzinger et al. 2019, BMC Bioinformatics 20:723; the shapes are those of bio_embeddings 0.2.3,
`extract/basic`. Their weights are not part of this project.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import batch_norm, conv1d, linear, relu

from elmo_model.checkpoints import pickles
from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import FolderSource

STRUCTURES: Final = {"DSSP3": "HEC", "DSSP8": "GHIBESTC", "disorder": "-X"}
"""The classes of a residue by the name of their file, a letter each."""

LOCATIONS: Final = (
    *("Cell-Membrane", "Cytoplasm", "Endoplasmic reticulum", "Golgi - Apparatus"),
    *("Lysosome / Vacuole", "Mitochondrion", "Nucleus", "Peroxisome", "Plastid"),
    "Extra - cellular",
)
MEMBRANES: Final = ("Soluble", "Membrane bound")

_CLASSIFIERS: Final = {
    "DSSP3": "dssp3_classifier",
    "DSSP8": "dssp8_classifier",
    "disorder": "diso_classifier",
}
_KERNEL: Final = 7  # residues that a convolution sees
_HIDDEN: Final = 32


@dataclass(frozen=True, slots=True)
class StructureHead:
    """Two convolutions over residues: structure in three and in eight classes, and disorder."""

    tensors: Mapping[str, Tensor]

    @classmethod
    def read(cls, path: Path, width: int) -> "StructureHead":
        """Read a state dict. Raises CheckpointError for one of another network."""
        shapes: dict[str, tuple[int, ...]] = {
            "elmo_feature_extractor.0.weight": (_HIDDEN, width, _KERNEL, 1)
        }
        for name, layer in _CLASSIFIERS.items():
            shapes[f"{layer}.0.weight"] = (len(STRUCTURES[name]), _HIDDEN, _KERNEL, 1)
        biases = {name.replace("weight", "bias"): shape[:1] for name, shape in shapes.items()}
        return cls(_read(path, {**shapes, **biases}))

    def classes(self, residues: NDArray[Any]) -> dict[str, str]:
        """Map (L, width) to a string of L letters for each name of `STRUCTURES`."""
        if not len(residues):
            return dict.fromkeys(STRUCTURES, "")
        features = relu(self._convolved("elmo_feature_extractor", torch.from_numpy(residues).T))
        best = {name: self._convolved(layer, features) for name, layer in _CLASSIFIERS.items()}
        return {
            name: "".join(STRUCTURES[name][each] for each in scores.argmax(0))
            for name, scores in best.items()
        }

    def _convolved(self, layer: str, values: Tensor) -> Tensor:
        weight, bias = (self.tensors[f"{layer}.0.{name}"] for name in ("weight", "bias"))
        return conv1d(values, weight.squeeze(-1), bias, padding=_KERNEL // 2)


@dataclass(frozen=True, slots=True)
class LocationHead:
    """A layer over the mean of the residues: the place in the cell, and membrane or soluble."""

    tensors: Mapping[str, Tensor]

    @classmethod
    def read(cls, path: Path, width: int) -> "LocationHead":
        """Read a state dict. Raises CheckpointError for one of another network."""
        weights = {
            "layer.0.weight": (_HIDDEN, width),
            "loc_classifier.weight": (len(LOCATIONS), _HIDDEN),
            "mem_classifier.weight": (len(MEMBRANES), _HIDDEN),
        }
        biases = {name.replace("weight", "bias"): shape[:1] for name, shape in weights.items()}
        norm = ("weight", "bias", "running_mean", "running_var")
        return cls(_read(path, {**weights, **biases, **{f"layer.3.{n}": (_HIDDEN,) for n in norm}}))

    def classes(self, residues: NDArray[Any]) -> tuple[str, str]:
        """Map (L, width) to the place in the cell and to membrane or soluble."""
        given = self.tensors
        values = torch.from_numpy(residues)
        mean = values.mean(0, keepdim=True) if len(values) else values.sum(0, keepdim=True)
        hidden = relu(linear(mean, given["layer.0.weight"], given["layer.0.bias"]))
        mean, variance = given["layer.3.running_mean"], given["layer.3.running_var"]
        weight, bias = given["layer.3.weight"], given["layer.3.bias"]
        hidden = batch_norm(hidden, mean, variance, weight, bias)
        location, membrane = (
            int(linear(hidden, given[f"{name}.weight"], given[f"{name}.bias"]).argmax())
            for name in ("loc_classifier", "mem_classifier")
        )
        return LOCATIONS[location], MEMBRANES[membrane]


def _read(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Return the tensors of these names and shapes, of a state dict or of its checkpoint."""
    label = str(path)
    with FolderSource(path.parent).open(path.name) as stream:
        values = pickles.read(stream, label)
    if isinstance(values, Mapping) and "state_dict" in values:
        values = values["state_dict"]
    found = pickles.state_of(values, label)
    for name, shape in shapes.items():
        if name not in found:
            raise CheckpointError(f"{label}: {name} is missing, expected it with shape {shape}")
        if tuple(found[name].shape) != shape:
            raise CheckpointError(
                f"{label}: {name} has shape {tuple(found[name].shape)}, expected {shape}"
            )
    return {name: found[name].float() for name in shapes}
