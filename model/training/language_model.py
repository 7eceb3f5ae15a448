"""The language model that a biLM is trained as: each direction predicts the next word."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.char_cnn import CharCNN
from model.elmo import Elmo
from model.state import State
from model.training.batches import Batch
from model.training.sampled_softmax import Softmax
from model.training.sides import Side


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
        losses, h, c = [], [], []
        for side, stack, old_h, old_c in zip(
            batch.sides,
            (bilm.forward_stack, bilm.backward_stack),
            state.h.chunk(2, dim=2),
            state.c.chunk(2, dim=2),
            strict=True,
        ):
            tokens = functional.embedding(side.index, vectors)
            layers, new_h, new_c = stack(
                tokens, side.sizes, _pick(old_h, side.before), _pick(old_c, side.before)
            )
            losses.append(self._loss(self.dropout(layers[-1]), side).mean())
            h.append(new_h.detach()[:, side.after])
            c.append(new_c.detach()[:, side.after])
        after = State(torch.cat(h, dim=2).to(state.h.dtype), torch.cat(c, dim=2).to(state.c.dtype))
        return torch.stack(losses), after

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
