"""The language model that a biLM is trained as: each direction predicts the next word."""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.elmo import Elmo
from elmo_model.layers.char_cnn import CharCNN
from elmo_model.layers.stack import Stack
from elmo_model.state import State
from elmo_model.training.batches import Batch
from elmo_model.training.direction import Side
from elmo_model.training.parallel_loss import abreast
from elmo_model.training.sampled_softmax import Softmax


class LanguageModel(nn.Module):
    """The network that serves, and a softmax over words that its two directions share.

    Dropout falls where bilm-tf has it: on the input of every LSTM, which is in the network, and on
    the top layer before the softmax. State is an argument and a result.
    """

    def __init__(self, elmo: Elmo, softmax: Softmax, dropout: float) -> None:
        super().__init__()
        if elmo.token_embedder.char_cnn is None or elmo.token_embedder.words is not None:
            raise ValueError("words are looked up in a table, expected a character CNN alone")
        self.elmo = elmo
        self.softmax = softmax
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch, state: State) -> tuple[Tensor, State]:
        """Map T steps of B rows to the mean losses (2,), forward and backward, and the state after.

        The losses are negative log likelihoods in nats, or those of the sampled softmax where a
        side has candidates. The state is cut off from the gradient: the next batch starts there.
        """
        cnn, bilm = self.char_cnn, self.elmo.bilm
        # a frequent word stands in many places: its gradient is summed in full precision
        vectors = torch.cat([cnn(ids) for ids in batch.characters]).to(state.h.dtype)
        halves = zip(
            batch.sides,
            (bilm.forward_stack, bilm.backward_stack),
            state.h.chunk(2, dim=2),
            state.c.chunk(2, dim=2),
            strict=True,
        )
        ahead, behind = (partial(self._read, *half) for half in halves)
        # two threads would draw what is dropped in no order, and a GPU has one queue for both
        random = self.training and self.dropout.p > 0
        if torch.is_grad_enabled() and vectors.device.type == "cpu" and not random:
            parameters = [*bilm.parameters(), *self.softmax.parameters()]
            losses, (left, right) = abreast(ahead, behind, vectors, parameters)
        else:
            (first, left), (second, right) = ahead(vectors), behind(vectors)
            losses = torch.stack((first, second))
        h, c = (torch.cat(pair, dim=2) for pair in zip(left, right, strict=True))
        return losses, State(h.to(state.h.dtype), c.to(state.c.dtype))

    def _read(
        self, side: Side, stack: Stack, h: Tensor, c: Tensor, vectors: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Map the distinct words' vectors to the mean loss of one direction, and its state."""
        tokens = functional.embedding(side.index, vectors)
        layers, h, c = stack(tokens, side.sizes, _pick(h, side.before), _pick(c, side.before))
        loss = self._loss(self.dropout(layers[-1]), side).mean()
        return loss, (h.detach()[:, side.after], c.detach()[:, side.after])

    @property
    def char_cnn(self) -> CharCNN:
        """The token encoder of the network."""
        cnn = self.elmo.token_embedder.char_cnn
        assert cnn is not None
        return cnn

    def zero_state(self, rows: int) -> State:
        """Return the state of rows that have read nothing."""
        return self.elmo.bilm.zero_state(self.softmax.weight, rows)

    def _loss(self, top: Tensor, side: Side) -> Tensor:
        if not len(side.candidates):
            return self.softmax.full(top, side.targets)
        return self.softmax.sampled(top, side.targets, side.candidates, side.tries)


def _pick(state: Tensor, rows: Tensor) -> Tensor:
    """Map (L, B, width) to (L, pieces, width), row B being zero."""
    return functional.pad(state, (0, 0, 0, 1))[:, rows]
