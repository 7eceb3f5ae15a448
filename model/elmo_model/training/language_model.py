"""The language model that trains a biLM: each direction predicts its next word."""

from collections.abc import Sequence
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.network.bilm import Stack
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.lstm import ProjectedLSTM
from elmo_model.network.state import DirectionState, State
from elmo_model.network.token_encoder import CharCNN
from elmo_model.training.batches import Batch, Direction
from elmo_model.training.fused_loop import fused_loop
from elmo_model.training.parallel_graphs import Graph, parallel_graphs
from elmo_model.training.sampled_softmax import Softmax


class LanguageModel(nn.Module):
    """The network that is served, and a softmax over words that both directions share.

    Dropout is applied where bilm-tf applies it: to the input of every LSTM (in the network), and to
    the top layer before the softmax. While it is trained, noise of the standard deviation `noise`
    is added to the output of every LSTM where the next step reads it. State is an argument and a
    result.
    """

    def __init__(
        self, elmo: ElmoNetwork, softmax: Softmax, dropout: float, noise: float = 0.0
    ) -> None:
        super().__init__()
        if elmo.token_embedder.char_cnn is None or elmo.token_embedder.words is not None:
            raise ValueError(
                "the network looks words up in a table, expected a character CNN alone"
            )
        self.elmo = elmo
        self.softmax = softmax
        self.dropout = nn.Dropout(dropout)
        self.noise = noise

    def forward(
        self, batch: Batch, state: State, *, softmax_alone: bool = False
    ) -> tuple[Tensor, State]:
        """Map a batch of T steps of B rows to the mean losses (2,) and the state after it.

        The losses, forward and backward, are negative log likelihoods in nats, over all words or,
        for a direction with candidates, over these. The state is detached from the gradient, and
        so is the whole network with `softmax_alone`.
        """
        bilm = self.elmo.bilm
        # a frequent word occurs many times: sum its gradient in full precision
        with torch.set_grad_enabled(torch.is_grad_enabled() and not softmax_alone):
            vectors = self._vectors(batch.characters).to(state.h.dtype)
        stacks = bilm.forward_stack, bilm.backward_stack
        halves = zip((0, 1), batch.directions, stacks, state.directions(), strict=True)
        forward, backward = (partial(self._direction_loss, *half, softmax_alone) for half in halves)
        # two threads would draw dropout masks in no fixed order
        random = self.training and self.dropout.p > 0
        if torch.is_grad_enabled() and vectors.device.type == "cpu" and not random:
            parameters = (*bilm.parameters(), *self.softmax.parameters())
            losses, (left, right) = parallel_graphs(forward, backward, [vectors], parameters)
        else:
            (first, left), (second, right) = _at_once(forward, backward, vectors)
            losses = first, second
        after = State.join(left, right)
        return torch.stack(losses), State(after.h.to(state.h.dtype), after.c.to(state.c.dtype))

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

    def _noise(self, number: int, layers: int, inputs: Tensor) -> Sequence[Tensor | None]:
        """Draw the noise of the L layers of a direction, like its inputs (T, B, P) each."""
        if not (self.noise and self.training):
            return [None] * layers
        generator = None
        if inputs.device.type == "cpu":  # the threads of both directions share no generator
            seed = (2 * torch.initial_seed() + number) % (1 << 63)
            generator = torch.Generator().manual_seed(seed)
        shape = layers, *inputs.shape
        noise = torch.randn(shape, generator=generator, dtype=inputs.dtype, device=inputs.device)
        return noise.mul_(self.noise).unbind()

    def _direction_loss(
        self,
        number: int,
        direction: Direction,
        stack: Stack,
        state: DirectionState,
        softmax_alone: bool,
        vectors: Tensor,
    ) -> tuple[Tensor, DirectionState]:
        """Map the vectors of the distinct words to the mean loss of one direction and its state."""
        inputs = functional.embedding(direction.index, vectors)  # (T, B, P)
        noises = self._noise(number, len(stack.layers), inputs)
        ends: list[list[Tensor]] = []
        for lstm, noise, h, c in zip(stack.layers, noises, *state, strict=True):
            assert isinstance(lstm, ProjectedLSTM)
            inputs = stack.dropout(inputs)
            outputs, *end = fused_loop(lstm, inputs, direction.keep, h, c, noise)
            inputs = outputs + inputs if stack.skip and ends else outputs
            ends.append(end)
        top = (inputs.detach() if softmax_alone else inputs).flatten(0, 1)
        h, c = map(torch.stack, zip(*ends, strict=True))
        return self._loss(self.dropout(top), direction).mean(), (h, c)

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
        targets = direction.targets.flatten()
        if not len(direction.candidates):
            return self.softmax.full(top, targets)
        return self.softmax.sampled(top, targets, direction.candidates, direction.tries)


def _at_once(
    forward: Graph[DirectionState], backward: Graph[DirectionState], vectors: Tensor
) -> tuple[tuple[Tensor, DirectionState], tuple[Tensor, DirectionState]]:
    """Run both directions, on a GPU in two queues: the steps of one leave most of it idle."""
    if vectors.device.type != "cuda":
        return forward(vectors), backward(vectors)
    # both train the softmax: its gradient in the second queue is waited for in the first one
    torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    current, other = torch.cuda.current_stream(), _second_stream(vectors.device)
    other.wait_stream(current)
    one = forward(vectors)
    with torch.cuda.stream(other):
        two = backward(vectors)
    current.wait_stream(other)
    return one, two


@cache
def _second_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
