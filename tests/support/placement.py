"""The network on a device that exists in name only: fake tensors know on which device they are.

    python -m tests.support.placement     prints a JSON object: the error of each case, or ""

A fake tensor of PyTorch has a shape, a type and a device, but no numbers, and an operation on
tensors of two devices fails as on a GPU. A process can name such a device once, for all of its
threads; so this is a program and no function of the tests.
"""

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from elmo_model import checkpoints
from elmo_model.inference.encoder import Encoder
from elmo_model.network.elmo import Elmo, Origin
from elmo_model.network.state import State

CHARACTERS, WORDS = "allennlp/small", "elmoformanylangs/word_and_char"
RUNS = (
    ("plain", CHARACTERS),
    ("plain", WORDS),
    ("float32", CHARACTERS),
    ("float32", WORDS),
    ("bfloat16", WORDS),
)
"""The network of the paper, and encoders of a precision."""
OPERATIONS = ("add", "mm", "addmm", "cat", "embedding", "index_select")
DEVICE = "nowhere"

_SENTENCES = [["a", "bank", "by", "a", "river"], ["naïve"], [], ["a", "東京"]]
_GOLDEN = Path(__file__).parents[1] / "golden"
_make_device: Callable[[str], None] | None = getattr(
    backend_registration, "_setup_privateuseone_for_python_backend", None
)
IS_POSSIBLE = _make_device is not None


_PRODUCTS = (torch.ops.aten.linear.default, torch.ops.aten.matmul.default)
"""Operations that consist of mm or addmm."""


class Misplaced(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Moves to the CPU the last of the tensors that an operation gets, at its first call."""

    def __init__(self, operation: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._name = f"aten::{operation}"
        self._is_done = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _PRODUCTS:
            with self:
                return func.decompose(*args, **kwargs)
        if not self._is_done and func.name().partition(".")[0] == self._name:
            leaves, form = tree_flatten(args)
            there = [at for at, leaf in enumerate(leaves) if _is_there(leaf)]
            if len(there) > 1:
                leaves[there[-1]] = torch.empty_like(leaves[there[-1]], device="cpu")
                args, self._is_done = tree_unflatten(leaves, form), True
        return func(*args, **kwargs)


def _is_there(value: object) -> bool:
    return isinstance(value, Tensor) and value.device.type == DEVICE


read = functools.cache(checkpoints.read)


def results(network: str, checkpoint: str) -> Iterator[Tensor]:
    """Compute with a network that was made on the device, and yield what it returns."""
    described = read(_GOLDEN / checkpoint)
    with torch.device(DEVICE):
        elmo = Elmo(described.config, described.alphabet, Origin("", "", ""))
    if network == "plain":
        yield from elmo.embed(_SENTENCES)
        with torch.inference_mode():
            yield from _carried(elmo)
        return
    encoder = Encoder.of(elmo, network)
    for _ in range(2):  # the second time with all words in the cache
        yield from encoder.embed(_SENTENCES)
    yield encoder.encode_whole(_SENTENCES, bounded=True).layers
    yield from _carried(encoder.encode_from)


def _carried(encode: Any) -> Iterator[Tensor]:
    state: State | None = None
    for sentences in (_SENTENCES, _SENTENCES[:2]):
        representations, state = encode(sentences, state)
        yield from (representations.layers, state.h, state.c)


def error_of(network: str, checkpoint: str, misplaced: str = "") -> str:
    """Return the error of a network, in one line, or "" when all it returns is on the device.

    An operation that is called `misplaced` is given one tensor on the CPU.
    """
    try:
        with FakeTensorMode():
            found: list[Tensor] = []
            with Misplaced(misplaced):
                found += results(network, checkpoint)
    except RuntimeError as error:
        return " ".join(str(error).split())
    devices = {each.device.type for each in found}
    return "" if devices == {DEVICE} else f"vectors on {', '.join(sorted(devices))}"


def main() -> None:
    """Print the error of each case."""
    assert _make_device is not None
    _make_device(DEVICE)
    found = {" ".join(run): error_of(*run) for run in RUNS}
    for network in ("plain", "float32"):
        for operation in OPERATIONS:
            found[f"{network} {operation}"] = error_of(network, WORDS, operation)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
