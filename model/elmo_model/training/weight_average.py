"""An exponential moving average of the weights: a better model than the last weights, for free."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

_Model = TypeVar("_Model", bound=nn.Module)

# Steps between two updates of the average. A larger number costs less (one update reads and writes
# all weights) and blurs the average by as many steps.
_INTERVAL = 8


class WeightAverage(Generic[_Model]):
    """The moving average of a model's weights, in `model`, a copy of the trained one.

    `decay` is the weight of the former average after one step; 0 switches the average off: `model`
    is the trained one then. Early in a run the decay is at most (1 + step) / (10 + step), so that
    the first weights are forgotten.
    """

    def __init__(self, trained: _Model, decay: float) -> None:
        self._trained, self._decay = trained, decay
        self.model = deepcopy(trained) if decay else trained

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the weights after `step` steps into the average, where an update is due."""
        if not self._decay or step % _INTERVAL:
            return
        decay = min(self._decay, (1 + step) / (10 + step)) ** _INTERVAL
        pairs = zip(self.model.parameters(), self._trained.parameters(), strict=True)
        for average, weight in pairs:
            # Weights that do not learn keep their bits, and so their revision: lerp makes 0.0 of
            # -0.0.
            if not average.equal(weight):
                average.lerp_(weight, 1 - decay)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the average by the names of the model's state; empty where it is switched off."""
        state = self.model.state_dict() if self._decay else {}
        return {name: value.cpu() for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from an average that `state_dict` returned."""
        if self._decay:
            self.model.load_state_dict(state)
