"""The figures of a run: losses, gradient norm and speed since the last line of the log."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from elmo_model.training.recipe import rate_share
from elmo_model.training.run import Plan


class Figures:
    """Losses since the last line of the log, kept on the device: reading one waits for the GPU."""

    def __init__(self, plan: Plan, step: int, seconds: float) -> None:
        self._plan = plan
        self.restart(step, seconds)

    def restart(self, step: int, seconds: float) -> None:
        """Begin the interval of the next line."""
        self._since = (step, seconds)
        self._losses: list[Tensor] = []
        self._norms: list[Tensor] = []

    def add(self, losses: Tensor, norm: Tensor) -> None:
        """Add the losses (2,) and the norm of the gradient of a step."""
        self._losses.append(losses)
        self._norms.append(norm)

    def losses(self) -> Tensor:
        """Return the mean losses (2,) of this process in the interval."""
        return torch.stack(self._losses).double().mean(dim=0)

    def line(self, step: int, seconds: float, losses: Tensor) -> dict[str, Any]:
        """Return the line of the log for the interval."""
        forward, backward = losses.tolist()
        norm = float(torch.stack(self._norms).mean())
        steps, time_taken = step - self._since[0], seconds - self._since[1]
        recipe = self._plan.recipe
        tokens_per_step = recipe.tokens_per_step
        return {
            "step": step,
            "tokens": step * tokens_per_step,
            "seconds": round(seconds, 3),
            "tokens_per_second": round(steps * tokens_per_step / max(time_taken, 1e-9), 1),
            "learning_rate": recipe.learning_rate * rate_share(recipe, step - 1, self._plan.steps),
            "gradient_norm": norm,
            "loss": (forward + backward) / 2,
            "loss_forward": forward,
            "loss_backward": backward,
            "perplexity_forward": math.exp(min(forward, 700.0)),
            "perplexity_backward": math.exp(min(backward, 700.0)),
        }


def log_line(line: Mapping[str, Any]) -> str:
    """Return the figures of a line of the log for a reader."""
    return (
        f"{line['tokens_per_second']:,.0f} tokens/s  loss {line['loss']:.3f}  perplexity "
        f"{line['perplexity_forward']:.1f} forward {line['perplexity_backward']:.1f} backward"
    )
