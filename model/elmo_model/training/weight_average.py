"""An exponential moving average of the weights: a better model than the last weights, for free."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# Steps between two updates of the average. A larger number costs less (one update reads and writes
# all weights) and blurs the average by as many steps.
_INTERVAL = 8


class WeightAverage:
    """The moving average of the floating-point values of a model's state.

    `decay` is the weight of the former average after one step; 0 switches the average off. Early in
    a run the decay is at most (1 + step) / (10 + step), so that the first weights are forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        state = model.state_dict() if decay else {}
        self._weights = {name: value for name, value in state.items() if value.is_floating_point()}
        self._average = {name: value.clone() for name, value in self._weights.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the weights after `step` steps into the average, where an update is due."""
        if not self._decay or step % _INTERVAL:
            return
        decay = min(self._decay, (1 + step) / (10 + step)) ** _INTERVAL
        torch._foreach_lerp_(
            list(self._average.values()), list(self._weights.values()), weight=1 - decay
        )

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Give the model the average; it gets its own weights back at the end."""
        kept = {name: value.clone() for name, value in self._weights.items()}
        self._set(self._average)
        try:
            yield
        finally:
            self._set(kept)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the average by the names of the model's state; empty where it is switched off."""
        return {name: value.cpu() for name, value in self._average.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from an average that `state_dict` returned."""
        for name, value in self._average.items():
            value.copy_(state[name])

    @torch.no_grad()
    def _set(self, values: Mapping[str, Tensor]) -> None:
        for name, value in self._weights.items():
            value.copy_(values[name])
