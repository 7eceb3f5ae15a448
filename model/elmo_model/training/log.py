"""The log of a run: one JSON object per line, with losses, gradient norm and speed."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_model.files.atomic import write_bytes
from elmo_model.training.recipe import lr_factor
from elmo_model.training.run import Plan


class Log:
    """An append-only file. A run that continues from step `step` drops the lines of later steps."""

    def __init__(self, path: Path, step: int) -> None:
        kept = [line for line in read(path) if line["step"] <= step] if path.exists() else []
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_bytes(path, text.encode())
        self._path = path

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line; it is in the file when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines, without a last one that a crash cut off."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


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
            "learning_rate": recipe.learning_rate * lr_factor(recipe, step - 1, self._plan.steps),
            "gradient_norm": norm,
            "loss": (forward + backward) / 2,
            "loss_forward": forward,
            "loss_backward": backward,
        }


def log_line(line: Mapping[str, Any], steps: int) -> str:
    """Return the figures of a line of the log for a reader, and the time left of `steps` steps.

    The time is that at the speed of the line; held-out perplexity takes some more.
    """
    tokens = line["tokens"] / line["step"] * (steps - line["step"])
    seconds = math.ceil(tokens / max(line["tokens_per_second"], 0.1))
    minutes = math.ceil(seconds / 60)
    hours = f"{minutes // 60:,} h " if minutes >= 60 else ""
    time = f"{hours}{minutes % 60} min" if seconds >= 60 else f"{seconds} s"
    left = f"  {time} left" if seconds else ""
    losses = f"{line['loss_forward']:.3f} forward, {line['loss_backward']:.3f} backward"
    return f"{line['tokens_per_second']:,.0f} tokens/s  loss {losses}{left}"
