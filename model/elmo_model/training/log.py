"""The log of a run: one JSON object per line, with losses, gradient norm and speed."""

import json
import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_model.files.atomic import write_bytes
from elmo_model.training.optimiser import lr_factor
from elmo_model.training.perplexity import Perplexity
from elmo_model.training.run_folder import Run


class RunLog:
    """The losses since the last line, and the file of all lines, each of which is printed as well.

    Losses are kept on the device: reading one waits for a GPU.
    """

    def __init__(
        self, path: Path, run: Run, step: int, seconds: float, tell: Callable[[str], object]
    ) -> None:
        """Continue after `step`, `seconds` of training; lines of later steps are dropped.

        `tell` prints a line.
        """
        self._path, self._run, self._tell = path, run, tell
        kept = [line for line in read(path) if line["step"] <= step] if path.exists() else []
        write_bytes(path, "".join(json.dumps(line) + "\n" for line in kept).encode())
        self._restart(step, seconds)

    def _restart(self, step: int, seconds: float) -> None:
        self._step, self._seconds = step, seconds
        self._losses: list[Tensor] = []
        self._norms: list[Tensor] = []

    def add(self, losses: Tensor, norm: Tensor) -> None:
        """Add the losses (2,) and the norm of the gradient of a step."""
        self._losses.append(losses)
        self._norms.append(norm)

    def line(self, step: int, seconds: float) -> dict[str, Any]:
        """Return the figures since the last line; losses are means over its steps."""
        forward, backward = torch.stack(self._losses).double().mean(dim=0).tolist()
        norm = float(torch.stack(self._norms).mean())
        options = self._run.options
        tokens = (step - self._step) * options.tokens_per_step
        return {
            "step": step,
            "tokens": step * options.tokens_per_step,
            "seconds": round(seconds, 3),
            "tokens_per_second": round(tokens / max(seconds - self._seconds, 1e-9), 1),
            "learning_rate": options.learning_rate * lr_factor(options, step - 1, self._run.steps),
            "gradient_norm": norm,
            "loss": (forward + backward) / 2,
            "loss_forward": forward,
            "loss_backward": backward,
        }

    def write(self, line: Mapping[str, Any]) -> None:
        """Append and print what `line` returned, and begin the next line."""
        self._restart(line["step"], line["seconds"])
        self._append(line, shown(line, self._run.steps))

    def measured(self, step: int, found: Perplexity) -> None:
        """Append and print a perplexity."""
        figures = {
            "heldout_perplexity": found.both,
            "heldout_perplexity_forward": found.forward,
            "heldout_perplexity_backward": found.backward,
        }
        tokens = step * self._run.options.tokens_per_step
        line = {"step": step, "tokens": tokens, **figures}
        self._append(line, f"held-out perplexity {found.both:.2f}")

    def perplexity(self, step: int) -> float | None:
        """Return the held-out perplexity after a step; None where it was not measured."""
        found = [line for line in read(self._path) if "heldout_perplexity" in line]
        return next((line["heldout_perplexity"] for line in found if line["step"] == step), None)

    def _append(self, line: Mapping[str, Any], text: str) -> None:
        """Append a line, which is in the file when this returns, and print `text` for it."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._tell(f"{line['step']:,}/{self._run.steps:,}  {text}")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines, without a last one that a crash cut off."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


def shown(line: Mapping[str, Any], steps: int) -> str:
    """Return the figures of a line of the log for a reader, and the time left of `steps` steps.

    The time is that at the speed of the line; held-out perplexity takes some more.
    """
    rate = line["tokens_per_second"]
    seconds = line["tokens"] / line["step"] * (steps - line["step"]) / max(rate, 0.1)
    left = f"  {timedelta(seconds=math.ceil(seconds))} left" if seconds else ""
    losses = f"{line['loss_forward']:.3f} forward, {line['loss_backward']:.3f} backward"
    return f"{rate:,.0f} tokens/s  loss {losses}{left}"
