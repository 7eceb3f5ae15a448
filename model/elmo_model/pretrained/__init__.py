"""Models by name: those that come with the program, and any other by its path."""

from collections.abc import Callable
from pathlib import Path

import torch

from elmo_model import checkpoints
from elmo_model.checkpoints import CheckpointError
from elmo_model.config import ElmoConfig
from elmo_model.elmo import Elmo, Origin
from elmo_model.pretrained import english, random_small

BUILT_IN: dict[str, Callable[[int], Elmo]] = {
    english.NAME: english.build,
    random_small.NAME: random_small.build,
}


def load_built_in(
    name: str, *, device: str | torch.device = "cpu", token_cache_size: int = 65_536
) -> Elmo:
    """Load a model that comes with the program. Raises CheckpointError for an unknown name."""
    if name not in BUILT_IN:
        raise CheckpointError(f"model is {name!r}, expected one of {', '.join(BUILT_IN)}")
    return BUILT_IN[name](token_cache_size).to(device)


def open_model(
    name_or_path: str | Path,
    *,
    device: str | torch.device = "cpu",
    token_cache_size: int = 65_536,
) -> Elmo:
    """Load a built-in model by its name, or the checkpoint at a path.

    Raises CheckpointError where there is neither.
    """
    name = str(name_or_path)
    if name in BUILT_IN:
        return load_built_in(name, device=device, token_cache_size=token_cache_size)
    _refuse_nothing(name)
    return checkpoints.load(name, device=device, token_cache_size=token_cache_size)


def describe_model(name_or_path: str | Path) -> tuple[ElmoConfig, Origin, int]:
    """Return configuration, origin and number of parameters of a built-in model or a path."""
    name = str(name_or_path)
    if name in BUILT_IN:
        elmo = load_built_in(name)
        return elmo.config, elmo.origin, elmo.parameter_count
    _refuse_nothing(name)
    return checkpoints.describe(name)


def _refuse_nothing(name: str) -> None:
    if not Path(name).exists():
        raise CheckpointError(
            f"{name}: does not exist, expected a path or one of {', '.join(BUILT_IN)}"
        )
