"""The training loop: steps, the log, held-out perplexity, snapshots and the export."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from elmo_model.inference.centre import CENTRE_TOKENS, centre_of, first_tokens
from elmo_model.models.opening import find_softmax
from elmo_model.network.description import Description, Trained
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.state import State
from elmo_model.steps import OnStep
from elmo_model.training import TrainingError
from elmo_model.training.batches import Batch, Batches, CharacterTable, prefetched
from elmo_model.training.corpus import Corpus
from elmo_model.training.log import RunLog
from elmo_model.training.optimiser import WeightAverage, lr_factor, optimiser_for
from elmo_model.training.perplexity import per_token
from elmo_model.training.run_folder import Folder, Run, new_model
from elmo_model.training.snapshot import Snapshot, latest
from elmo_model.training.step_graph import StepGraph
from elmo_model.training.vocabulary import Vocabulary

# Characters of distinct words that pass the CNN at once on a CPU, where they should stay in the
# cache.
_CHUNK = 8192

_CENTRE_BATCH = 1024  # tokens that are computed at once for the centre


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run: steps done before and now, steps planned, whether it was stopped early.

    `signal` is the number of the signal that stopped it, None without one.
    """

    begun: int
    step: int
    steps: int
    stopped: bool
    signal: int | None


class Trainer:
    """A run in this process: its model, optimiser, batches and position."""

    def __init__(
        self,
        folder: Folder,
        run: Run,
        corpus: Corpus,
        vocabulary: Vocabulary,
        device: torch.device,
        network: ElmoNetwork | None = None,
    ) -> None:
        options = run.options
        self._folder, self._run, self._options = folder, run, options
        self._corpus, self._vocabulary, self._device = corpus, vocabulary, device
        model = new_model(run, network)
        if options.softmax_bias == "unigram":
            counts = vocabulary.counts(corpus.words, corpus.counts)
            model.softmax.bias_from(torch.from_numpy(counts))
        if network is not None and options.weights is not None:
            stored = find_softmax(options.weights, network)
            if stored is not None:
                model.softmax.take_over(stored.read(), vocabulary)
        self.model = model.to(self._device).train()
        products = torch.bfloat16 if self._is_mixed else torch.float32
        self._optimiser = optimiser_for(self.model, options, products)
        self._average = WeightAverage(self.model, options.average)
        self._batches = self._new_batches()
        self._state = self.model.zero_state(options.rows)
        self._step, self._seconds = 0, 0.0
        has_graph = self._optimiser.capturable
        self._graph = StepGraph(self._learn, self._device) if has_graph else None

    def run(
        self,
        heldout: Sequence[Sequence[str]],
        signals: Sequence[int],
        tell: Callable[[str], object],
        on_step: OnStep,
    ) -> Outcome:
        """Train to the last step, or until there are `signals`; save and export either way.

        Continues from the last snapshot in the folder. `tell` prints the lines of the log. Raises
        TrainingError when the loss is not finite.
        """
        if (path := latest(self._folder.snapshots)) is not None:
            self._restore(Snapshot.read(path))
        begun = self._step
        log = RunLog(self._folder.log, self._run, begun, self._seconds, tell)
        stopped = self._train(heldout, signals, log, on_step)
        description = self._description(heldout, log.perplexity(self._step))
        model = self._average.model
        self._folder.export(model, self._options.name, self._vocabulary, description)
        signal = signals[0] if stopped and signals else None
        return Outcome(begun, self._step, self._run.steps, stopped, signal)

    def _description(
        self, heldout: Sequence[Sequence[str]], perplexity: float | None
    ) -> Description:
        """Return the description of the network as it is; its centre is that of held-out text."""
        options, centre = self._options, None
        if heldout and options.heldout is not None:
            text = first_tokens(heldout, CENTRE_TOKENS)
            name, network = options.heldout.name, self._average.model.elmo
            centre = centre_of(network, _CENTRE_BATCH, text, name)
        trained = Trained(self._step * options.tokens_per_step, perplexity)
        return Description(options.tokenizer, options.language, centre, trained)

    def trial(self) -> None:
        """Compute losses and gradients of the next batch, and change nothing."""
        cursors = self._batches.cursors()
        batch = self._batches.next_batch(self._step)
        self._batches.restore(cursors)
        assert batch is not None  # the text is read again and again
        losses, _ = self._losses(batch)
        torch.autograd.backward(losses.mean())
        self._optimiser.zero_grad()

    def _train(
        self,
        heldout: Sequence[Sequence[str]],
        signals: Sequence[int],
        log: RunLog,
        on_step: OnStep,
    ) -> bool:
        started = saved = time.perf_counter()
        begin = started - self._seconds
        stopped = False
        pinned = self._device.type == "cuda"
        with prefetched(self._batches, self._step, pinned=pinned) as batches:
            while self._step < self._run.steps and not stopped:
                batch = next(batches)
                losses, norm = self._move(batch)
                self._step += 1
                self._average.update(self._step, last=self._step == self._run.steps)
                self._seconds = time.perf_counter() - begin
                on_step(self._options.name, self._step, self._run.steps, "steps")
                self._report(log, losses, norm)
                stopped = bool(signals) or self._is_late(started)
                last = stopped or self._step == self._run.steps
                if self._due(self._options.save_every, last) or self._is_overdue(saved):
                    self._refuse_infinite(norm.item())
                    self._save(batch)
                    saved = time.perf_counter()
                signalled = stopped and bool(signals)
                if heldout and self._due(self._options.measure_every, last) and not signalled:
                    self._measure(heldout, log)
                begin = time.perf_counter() - self._seconds  # only training counts
        return stopped and self._step < self._run.steps

    def _report(self, log: RunLog, losses: Tensor, norm: Tensor) -> None:
        """Add a step to the log, and write a line where one is due."""
        log.add(losses, norm)
        if self._due(self._options.log_every):
            line = log.line(self._step, self._seconds)
            self._refuse_infinite(line["loss"])
            log.write(line)

    def _move(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Take one step; return the losses (2,) and the norm of the gradient, on the device."""
        options = self._options
        # dropout and noise depend on the step alone, so a continued run draws the same masks
        torch.manual_seed(_mixed(options.seed, self._step, 0))
        self._optimiser.set_factor(lr_factor(options, self._step, self._run.steps))
        try:
            if self._graph is None or self._step < options.softmax_steps:
                return self._learn(batch.to(self._device))
            return self._graph(batch)
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"rows is {options.rows}, more than the memory of the device holds; expected "
                f"fewer, and another folder"
            ) from error

    def _learn(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Change the weights and the state of the rows, in place, by a batch on the device."""
        options = self._options
        with _products(self._is_mixed and self._device.type == "cuda"):
            losses, state = self._losses(batch)
            loss = losses.mean() * (options.unroll if options.scale_by_unroll else 1)
            self._optimiser.zero_grad()
            torch.autograd.backward(loss)
            norm = clip_grad_norm_(self.model.parameters(), options.clip_norm)
            self._optimiser.step()
            self._state.h.copy_(state.h)
            self._state.c.copy_(state.c)
        return losses.detach(), norm

    @property
    def _is_mixed(self) -> bool:
        return self._options.precision == "bfloat16"

    def _losses(self, batch: Batch) -> tuple[Tensor, State]:
        """Map a batch to the losses (2,) of this step and the state of the rows after it."""
        found: tuple[Tensor, State]
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._is_mixed):
            softmax_alone = self._step < self._options.softmax_steps
            found = self.model(batch, self._state, softmax_alone=softmax_alone)
        return found

    def _refuse_infinite(self, value: float) -> None:
        if not math.isfinite(value):
            raise TrainingError(
                f"loss or gradient is {value} at step {self._step}; the last snapshot is as it was"
            )

    def _is_late(self, started: float) -> bool:
        limit = self._options.minutes
        return limit is not None and time.perf_counter() - started >= limit * 60

    def _is_overdue(self, saved: float) -> bool:
        return time.perf_counter() - saved >= self._options.save_minutes * 60

    def _due(self, every: int, last: bool = False) -> bool:
        return last or self._step % every == 0 or self._step == self._run.steps

    def _measure(self, heldout: Sequence[Sequence[str]], log: RunLog) -> None:
        model = self._average.model
        log.measured(self._step, per_token(model, self._vocabulary, heldout))

    def _save(self, batch: Batch) -> None:
        """Write a snapshot."""
        weights = {name: value.cpu() for name, value in self.model.state_dict().items()}
        optimiser = self._optimiser.state_dict()
        state = State(self._state.h.detach().cpu(), self._state.c.detach().cpu())
        Snapshot(
            self._step,
            self._seconds,
            weights,
            self._average.state_dict(),
            optimiser,
            state,
            batch.cursors,
        ).write(self._folder.snapshots)

    def _restore(self, snapshot: Snapshot) -> None:
        self.model.load_state_dict(snapshot.weights)
        self._average.load_state_dict(snapshot.average)
        self._optimiser.load_state_dict(snapshot.optimiser)
        self._batches.restore(snapshot.cursors)
        self._state = State(snapshot.state.h.to(self._device), snapshot.state.c.to(self._device))
        self._step, self._seconds = snapshot.step, snapshot.seconds

    def _new_batches(self) -> Batches:
        run = self._run
        alphabet, cnn = self.model.elmo.alphabet, run.config.char_cnn
        assert cnn is not None  # or the model would not have been made
        chunk = _CHUNK if self._device.type == "cpu" else None
        return Batches(
            self._corpus,
            CharacterTable(self._corpus, self._vocabulary, alphabet, cnn, chunk),
            run.options,
            run.words,
            run.options.seed,
        )


@contextmanager
def _products(are_rounded: bool) -> Iterator[None]:
    """Round the float32 products of a GPU to TF32 meanwhile, where the others are in bfloat16."""
    before = torch.get_float32_matmul_precision()
    if are_rounded:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _mixed(*numbers: int) -> int:
    """Return one seed that depends on all of the numbers."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (1 << 63)
    return mixed
