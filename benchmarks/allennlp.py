"""AllenNLP 2.10.1's biLM, of all that package needs nothing but torch, NumPy and h5py.

Its modules import some ten libraries at the top which an ELMo never calls. Those that are missing
are made up; everything that computes is AllenNLP's own.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from tests.support.checkpoints import weights_file

_UNUSED = (
    "base58",
    "cached_path",
    "dill",
    "fairscale",
    "huggingface_hub",
    "lmdb",
    "more_itertools",
    "spacy",
    "torchvision",
    "tqdm",
    "transformers",
)


class AllenNLP:
    """Tokenised sentences to all layers by AllenNLP, two boundary tokens to each sentence.

    This is what `ElmoEmbedder` and `Elmo` call, without the mix and the conversion to NumPy that
    they add.
    """

    def __init__(self, site_packages: Path, checkpoint: Path, device: str = "cpu") -> None:
        """Raises ModuleNotFoundError where there is no AllenNLP."""
        sys.path.append(str(site_packages))
        sys.meta_path.append(_MadeUp())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own age
            self._module = importlib.import_module("allennlp.modules.elmo")
        options = next(checkpoint.glob("*options.json"))
        self._bilm = self._module._ElmoBiLm(str(options), str(weights_file(checkpoint)))
        self._bilm.eval().to(device)
        self._device = device

    def embed(self, sentences: Sequence[list[str]]) -> Tensor:
        """Map sentences to (L + 1, sentences, longest + 2, 2P), zeros where they have ended."""
        with torch.inference_mode():
            ids = self._module.batch_to_ids(sentences).to(self._device)
            return torch.stack(self._bilm(ids)["activations"])

    def vectors(self, sentences: Sequence[list[str]]) -> list[Tensor]:
        """Return the layers of each sentence, (L + 1, longest, 2P), from a state of zeros."""
        self._forget()
        return list(self.embed(sentences)[:, :, 1:-1].unbind(1))

    def seconds(self, batches: Sequence[Sequence[list[str]]]) -> float:
        """Return the time that some batches take."""
        self._forget()
        start = time.perf_counter()
        for batch in batches:
            self.embed(batch)
        return time.perf_counter() - start

    def _forget(self) -> None:
        """Start from a state of zeros again, which AllenNLP otherwise carries along."""
        self._bilm._elmo_lstm.reset_states()


class _MadeUp(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes up the unused libraries. The last finder asked: what is installed is taken."""

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        known = name.partition(".")[0] in _UNUSED
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Library(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "cached_path":  # the one function that is called: files are local
            module.cached_path = lambda path, **_: path  # type: ignore[attr-defined]


class _Library(ModuleType):
    """Whatever is asked of it is a class."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})
