"""The log of a run: one JSON object per line, with losses, gradient norm and speed."""

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from elmo_model.files.atomic import write_bytes
from elmo_model.progress import LINE_SECONDS
from elmo_model.steps import OnStep, ignore
from elmo_model.training.perplexity import Perplexity
from elmo_model.training.recipe import lr_factor
from elmo_model.training.run_folder import Plan


class RunLog:
    """The losses since the last line, the file of all lines, and what a person sees of them.

    Losses are kept on the device: reading one waits for a GPU.
    """

    def __init__(
        self,
        path: Path,
        plan: Plan,
        step: int,
        seconds: float,
        console: Console | None = None,
        on_step: OnStep = ignore,
    ) -> None:
        """Continue after `step`, `seconds` of training; lines of later steps are dropped.

        Figures are printed on `console`; `on_step` shows how many steps are done.
        """
        self._path, self._plan = path, plan
        self._console, self._on_step = console or Console(quiet=True), on_step
        self._shown = float("-inf")
        kept = [line for line in read(path) if line["step"] <= step] if path.exists() else []
        write_bytes(path, "".join(json.dumps(line) + "\n" for line in kept).encode())
        self._restart(step, seconds)

    def _restart(self, step: int, seconds: float) -> None:
        self._since = self._now = step, seconds
        self._losses: list[Tensor] = []
        self._norms: list[Tensor] = []

    def add(self, step: int, losses: Tensor, norm: Tensor) -> None:
        """Add the losses (2,) and the norm of the gradient of a step, and show that it is done."""
        self._losses.append(losses)
        self._norms.append(norm)
        self._on_step(self._plan.name, step, self._plan.steps, "steps")

    def line(self, step: int, seconds: float) -> dict[str, Any]:
        """Return the figures since the last line; losses are means over its steps."""
        forward, backward = torch.stack(self._losses).double().mean(dim=0).tolist()
        norm = float(torch.stack(self._norms).mean())
        steps, time_taken = step - self._since[0], seconds - self._since[1]
        recipe = self._plan.recipe
        tokens_per_step = recipe.tokens_per_step
        self._now = step, seconds
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

    def write(self, line: Mapping[str, Any]) -> None:
        """Append the line that `line` returned, and begin the next one."""
        self._restart(*self._now)
        self._append(line)

    def measured(self, step: int, found: Perplexity) -> None:
        """Append and show a perplexity."""
        self._print(step, f"held-out perplexity {found.both:.2f}")
        figures = {
            "heldout_perplexity": found.both,
            "heldout_perplexity_forward": found.forward,
            "heldout_perplexity_backward": found.backward,
        }
        tokens = step * self._plan.recipe.tokens_per_step
        self._append({"step": step, "tokens": tokens, **figures})

    def perplexity(self, step: int) -> float | None:
        """Return the held-out perplexity after a step; None where it was not measured."""
        found = [line for line in read(self._path) if "heldout_perplexity" in line]
        return next((line["heldout_perplexity"] for line in found if line["step"] == step), None)

    def _append(self, line: Mapping[str, Any]) -> None:
        """Append a line; it is in the file when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def is_due(self) -> bool:
        """Tell whether the last line that was shown is so old that another is worth its cost."""
        return time.monotonic() - self._shown >= LINE_SECONDS

    def show(self, line: Mapping[str, Any]) -> None:
        """Show the figures of a line."""
        self._print(line["step"], log_line(line, self._plan.steps))

    def _print(self, step: int, text: str) -> None:
        self._shown = time.monotonic()
        self._console.print(f"{step:,}/{self._plan.steps:,}  {text}", markup=False)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines, without a last one that a crash cut off."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


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
