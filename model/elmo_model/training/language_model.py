"""The language model that trains a biLM: each direction predicts its next word."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.network.bilm import BiLM, Stack
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.lstm import ProjectedLSTM
from elmo_model.network.state import DirectionState, State
from elmo_model.network.token_encoder import CharCNN
from elmo_model.training.batches import Batch, Direction
from elmo_model.training.parallel_graphs import parallel_graphs
from elmo_model.training.sampled_softmax import Softmax


class LanguageModel(nn.Module):
    """The network that is served, and a softmax over words that both directions share.

    Dropout is applied where bilm-tf applies it: to the input of every LSTM (in the network), and to
    the top layer before the softmax. State is an argument and a result.
    """

    def __init__(self, elmo: ElmoNetwork, softmax: Softmax, dropout: float) -> None:
        super().__init__()
        if elmo.token_embedder.char_cnn is None or elmo.token_embedder.words is not None:
            raise ValueError(
                "the network looks words up in a table, expected a character CNN alone"
            )
        self.elmo = elmo
        self.softmax = softmax
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        batch: Batch,
        state: State,
        *,
        softmax_alone: bool = False,
        teacher: BiLM | None = None,
    ) -> tuple[Tensor, State]:
        """Map a batch of T steps of B rows to the mean losses (2,) and the state after it.

        The losses, forward and backward, are negative log likelihoods in nats, over all words or,
        for a direction with candidates, over these; with a `teacher` they are the distances of the
        layers to those of the teacher, whose token layer is the same. The state is detached from
        the gradient, so is the whole network with `softmax_alone`, and the token layer with a
        teacher.
        """
        bilm = self.elmo.bilm
        fixed = softmax_alone or teacher is not None
        # a frequent word occurs many times: sum its gradient in full precision
        with torch.set_grad_enabled(torch.is_grad_enabled() and not fixed):
            vectors = self._vectors(batch.characters).to(state.h.dtype)
        halves = zip(
            batch.directions,
            (bilm.forward_stack, bilm.backward_stack),
            (None, None) if teacher is None else (teacher.forward_stack, teacher.backward_stack),
            state.directions(),
            strict=True,
        )
        forward, backward = (partial(self._direction_loss, *half, softmax_alone) for half in halves)
        # two threads would draw dropout masks in no fixed order; a GPU has one queue for both
        random = self.training and self.dropout.p > 0
        if torch.is_grad_enabled() and vectors.device.type == "cpu" and not random:
            every = (*bilm.parameters(), *self.softmax.parameters())
            parameters = [each for each in every if each.requires_grad]
            losses, (left, right) = parallel_graphs(forward, backward, [vectors], parameters)
        else:
            (first, left), (second, right) = forward(vectors), backward(vectors)
            losses = first, second
        after = State.join(left, right)
        return torch.stack(losses), State(after.h.to(state.h.dtype), after.c.to(state.c.dtype))

    @torch.no_grad()
    def shrink_recurrence(
        self, batch: Batch, noise: float, mean: Callable[[Tensor], Tensor] = lambda moments: moments
    ) -> None:
        """Replace every recurrent matrix R by the one that reads noisy outputs best.

        For outputs of second moments H, and noise of standard deviation s, R H (H + s^2 I)^-1 has
        the least mean squared error from what R makes of the outputs without noise: it keeps the
        directions that text uses and drops the rest, by which other input is amplified. Without
        noise nothing changes. `mean` takes the mean of H over all processes.
        """
        vectors = self._vectors(batch.characters)
        stacks = self.elmo.bilm.forward_stack, self.elmo.bilm.backward_stack
        state = State.zero(self.elmo.config.lstm, vectors, batch.rows)
        halves = zip(batch.directions, stacks, state.directions(), strict=True)
        for direction, stack, own_state in halves:
            tokens = functional.embedding(direction.index, vectors)
            layers, *_ = stack(tokens, direction.sizes, *_pick(own_state, direction.before))
            for number, lstm in enumerate(stack.layers):
                assert isinstance(lstm, ProjectedLSTM)
                residual = layers[number - 1] if stack.skip and number else 0
                outputs = layers[number] - residual  # (N, P), those of the LSTM itself
                moments = mean(outputs.T @ outputs / len(outputs))
                noisy = moments + noise**2 * torch.eye(len(moments), device=moments.device)
                weight = lstm.recurrent.weight
                weight.copy_(torch.linalg.solve(noisy, moments @ weight.T).T)

    def _vectors(self, chunks: Sequence[Tensor]) -> Tensor:
        """Map the characters of the distinct words, in chunks, to their vectors (words, P)."""
        cnn = self.char_cnn

        def encode(some: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
            return torch.cat([cnn(ids) for ids in some]), ()

        if not torch.is_grad_enabled() or len(chunks) < 2 or chunks[0].device.type != "cpu":
            return encode(chunks)[0]
        half = len(chunks) // 2  # chunks are about equal in size, but for the last one
        halves = partial(encode, chunks[:half]), partial(encode, chunks[half:])
        vectors, _ = parallel_graphs(*halves, [], [*cnn.parameters()])
        return torch.cat(vectors)

    def _direction_loss(
        self,
        direction: Direction,
        stack: Stack,
        teacher: Stack | None,
        state: DirectionState,
        softmax_alone: bool,
        vectors: Tensor,
    ) -> tuple[Tensor, DirectionState]:
        """Map the vectors of the distinct words to the mean loss of one direction and its state."""
        tokens = functional.embedding(direction.index, vectors)
        before = _pick(state, direction.before)
        layers, h, c = stack(tokens, direction.sizes, *before)
        if teacher is not None and not softmax_alone:
            with torch.no_grad():
                wanted, *_ = teacher(tokens, direction.sizes, *before)
            loss = _distance(layers, wanted)
        else:
            top = layers[-1].detach() if softmax_alone else layers[-1]
            loss = self._loss(self.dropout(top), direction).mean()
        return loss, (h.detach()[:, direction.after], c.detach()[:, direction.after])

    @property
    def char_cnn(self) -> CharCNN:
        """The token encoder of the network."""
        cnn = self.elmo.token_embedder.char_cnn
        assert cnn is not None
        return cnn

    def zero_state(self, rows: int) -> State:
        """Return the state of `rows` rows before their first words: zeros."""
        return State.zero(self.elmo.config.lstm, self.softmax.weight, rows)

    def _loss(self, top: Tensor, direction: Direction) -> Tensor:
        if not len(direction.candidates):
            return self.softmax.full(top, direction.targets)
        return self.softmax.sampled(top, direction.targets, direction.candidates, direction.tries)


def _distance(layers: Sequence[Tensor], wanted: Sequence[Tensor]) -> Tensor:
    """Map layers (N, P) to their mean squared distance to others, a share of these squared."""
    shares = [
        (own.float() - other.float()).square().mean() / other.float().square().mean()
        for own, other in zip(layers, wanted, strict=True)
    ]
    return torch.stack(shares).mean()


def _pick(state: DirectionState, rows: Tensor) -> DirectionState:
    """Map h and c (L, B, width) to (L, segments, width); row B is zero."""
    h, c = (functional.pad(values, (0, 0, 0, 1))[:, rows] for values in state)
    return h, c
