"""The optimisers of a run, the learning rate, and the moving average of the weights."""

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Adagrad, AdamW, Optimizer

from elmo_model.training.options import Options
from elmo_model.training.parallel_graphs import threads_of

_MOMENTUM = 0.95


class Optimisers:
    """One or more optimisers, each over parameters and with a peak rate of its own.

    On a CPU every second one runs in a thread of its own. With `capturable` a step may be part of a
    CUDA graph: rates are tensors on the device.
    """

    def __init__(self, *parts: Optimizer, capturable: bool = False) -> None:
        self.parts, self.capturable = parts, capturable
        self._peaks = [[group["lr"] for group in part.param_groups] for part in parts]
        self._device = parts[0].param_groups[0]["params"][0].device
        self._prepare()

    def set_factor(self, factor: float) -> None:
        """Set the rate of the next steps to `factor` times the peak rate of each optimiser."""
        for part, peaks in zip(self.parts, self._peaks, strict=True):
            for group, peak in zip(part.param_groups, peaks, strict=True):
                if self.capturable:
                    group["lr"].fill_(peak * factor)
                else:
                    group["lr"] = peak * factor

    def step(self) -> None:
        """Take a step of every optimiser."""
        if len(self.parts) == 1 or self._device.type != "cpu":
            _step(self.parts)
            return
        halves = partial(_step, self.parts[::2]), partial(_step, self.parts[1::2])
        threads_of(torch.get_num_threads()).run(*halves)

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a continued run needs."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        for part, own in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(own)
        self._prepare()

    def _prepare(self) -> None:
        """Put the rates where this device has them; the state may be that of another device."""
        for part in self.parts:
            for group in part.param_groups:
                group["capturable"] = self.capturable
                if self.capturable:
                    group["lr"] = torch.tensor(float(group["lr"]), device=self._device)


class Muon(Optimizer):
    """Muon (Jordan et al. 2024) over matrices, with steps of the size of AdamW's (Liu et al. 2025).

    Its products are in the `dtype` of a run. `torch.optim.Muon` has them in bfloat16 everywhere,
    which takes six times as long as float32 on a processor without such products (AVX2).
    """

    def __init__(
        self, matrices: Iterable[Tensor], rate: float, weight_decay: float, dtype: torch.dtype
    ) -> None:
        super().__init__(matrices, {"lr": rate, "weight_decay": weight_decay})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Move every matrix that has a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                if not state:
                    state["momentum"] = torch.zeros_like(matrix)
                momentum = state["momentum"].lerp_(matrix.grad, 1 - _MOMENTUM)
                ahead = matrix.grad.lerp(momentum, _MOMENTUM)  # Nesterov's
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                scale = 0.2 * group["lr"] * max(matrix.shape) ** 0.5
                matrix.sub_(_orthogonal(ahead.to(self._dtype)).to(matrix.dtype) * scale)


def _orthogonal(matrix: Tensor) -> Tensor:
    """Return a matrix of the same singular vectors, with singular values near one.

    Five steps of the iteration of Newton and Schulz, with the coefficients of Jordan et al.
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    found = matrix.T if is_tall else matrix
    found = found / found.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = found @ found.T
        update = torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
        found = torch.addmm(found, update, found, beta=3.4445)
    return found.T if is_tall else found


def optimiser_for(
    model: nn.Module, options: Options, dtype: torch.dtype = torch.float32
) -> Optimisers:
    """Return the optimisers of a run over a model's parameters; `dtype` is that of products.

    "muon" trains the weights of all linear maps (those of the LSTMs, the highways and the
    projection of the character CNN) by Muon. Characters, convolutions, softmax and biases are
    AdamW's.
    """
    if options.optimiser == "adagrad":
        # as in TensorFlow: the sum of squares starts at 1, and no epsilon is in the denominator
        return Optimisers(
            Adagrad(
                model.parameters(), options.learning_rate, initial_accumulator_value=1.0, eps=0.0
            )
        )
    hidden = [module.weight for module in model.modules() if isinstance(module, nn.Linear)]
    hidden.sort(key=torch.numel, reverse=True)
    chosen = set(map(id, hidden))
    rest = [p for p in model.parameters() if id(p) not in chosen]
    # two of about the same work, for two threads
    halves = [half for half in (hidden[::2], hidden[1::2]) if half]
    muons = (Muon(half, options.matrix_rate, options.weight_decay, dtype) for half in halves)
    return Optimisers(*muons, _adamw(rest, options), capturable=rest[0].device.type == "cuda")


def _step(parts: Iterable[Optimizer]) -> None:
    for part in parts:
        part.step()


def _adamw(parameters: Iterable[nn.Parameter], options: Options) -> AdamW:
    every = list(parameters)
    groups = [
        {"params": [p for p in every if p.dim() > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in every if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return AdamW(groups, options.learning_rate, betas=(0.9, 0.98), fused=True)


def lr_factor(options: Options, step: int, steps: int) -> float:
    """Return the factor of the peak rate in step `step`, counted from 0, of `steps`.

    The rate rises linearly over the warm-up. Then "constant" keeps it, and "constant-decay" keeps
    it until the last `decay` share of the steps and then lets it fall as 1 - sqrt (Hägele et al.
    2024) to `floor`.
    Steps that train the softmax alone are a schedule of their own, without a warm-up.
    """
    alone = min(options.softmax_steps, steps)
    if step < alone:
        return _fall(options, step, alone)
    step, steps = step - alone, steps - alone
    warmup = round(options.warmup * steps)
    if options.warmup_steps is not None:
        warmup = min(warmup, options.warmup_steps)
    if step < warmup:
        return (step + 1) / warmup
    return _fall(options, step, steps)


def _fall(options: Options, step: int, steps: int) -> float:
    if options.schedule == "constant":
        return 1.0
    decay = max(1, round(options.decay * steps))
    share = 1 - math.sqrt(max(0.0, min(1.0, 1 - (steps - step) / decay)))
    return options.floor + (1 - options.floor) * share


_Model = TypeVar("_Model", bound=nn.Module)

# Steps between two updates of the average; during the first 8 steps it is updated every step. A
# larger number costs less (an update reads and writes all weights) and blurs the average as much.
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
    def update(self, step: int, *, last: bool = False) -> None:
        """Take the weights after `step` steps into the average, where an update is due.

        The last step of a run is always in it. A run that is stopped and resumed has the average
        of a run without a stop: steps after the last update are included in the next one.
        """
        interval = _INTERVAL if step >= _INTERVAL else 1
        if not self._decay or (step % interval and not last):
            return
        interval = step % interval or interval
        decay = min(self._decay, (1 + step) / (10 + step)) ** interval
        pairs = zip(self.model.parameters(), self._trained.parameters(), strict=True)
        for average, weight in pairs:
            # Weights that do not learn keep their bits, and so their revision: lerp makes 0.0 of
            # -0.0. A GPU is not waited for.
            moved = torch.lerp(average, weight, 1 - decay)
            average.copy_(torch.where(average == weight, average, moved))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the average by the names of the model's state; empty where it is switched off."""
        state = self.model.state_dict() if self._decay else {}
        return {name: value.cpu() for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from an average that `state_dict` returned."""
        if self._decay:
            self.model.load_state_dict(state)
