"""An exponential moving average of the weights: a better model than the last weights, for free."""

from collections.abc import Mapping
from typing import Generic, TypeVar, cast

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

_Model = TypeVar("_Model", bound=nn.Module)

# Steps between two updates of the average. A larger number costs less (one update reads and writes
# all weights) and blurs the average by as many steps.
_INTERVAL = 8


class WeightAverage(Generic[_Model]):
    """The moving average of a model's weights, by torch.

    `decay` is the weight of the former average after one step; 0 switches the average off. Early in
    a run the decay is at most (1 + step) / (10 + step), so that the first weights are forgotten.
    """

    def __init__(self, trained: _Model, decay: float) -> None:
        self._trained, self._decay = trained, decay
        self._averaged = AveragedModel(trained) if decay else None
        if self._averaged is not None:
            # torch would replace the first weights by those of the first update
            self._averaged.n_averaged.fill_(1)

    @property
    def model(self) -> _Model:
        """A copy of the model with the average; without a decay the model itself."""
        return self._trained if self._averaged is None else cast(_Model, self._averaged.module)

    def update(self, step: int) -> None:
        """Take the weights after `step` steps into the average, where an update is due."""
        if self._averaged is None or step % _INTERVAL:
            return
        decay = min(self._decay, (1 + step) / (10 + step)) ** _INTERVAL
        self._averaged.multi_avg_fn = get_ema_multi_avg_fn(decay)
        self._averaged.update_parameters(self._trained)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the average by the names of the model's state; empty where it is switched off."""
        state = {} if self._averaged is None else self.model.state_dict()
        return {name: value.cpu() for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from an average that `state_dict` returned."""
        if self._averaged is not None:
            self.model.load_state_dict(state)
