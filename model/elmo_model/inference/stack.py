"""One direction of the biLM for inference: its LSTMs, one above the other."""

from collections.abc import Sequence

import torch
from torch import Tensor

from elmo_model.inference.lstm import InferenceLSTM
from elmo_model.inference.precision import Precision
from elmo_model.network.lstm import ProjectedLSTM
from elmo_model.network.stack import Stack


class InferenceStack:
    """The L layers of one direction of a trained biLM, in a precision."""

    def __init__(self, trained: Stack, precision: Precision) -> None:
        lstms = (layer for layer in trained.layers if isinstance(layer, ProjectedLSTM))
        self.layers = tuple(InferenceLSTM(lstm, precision) for lstm in lstms)
        self.skip = trained.skip

    def run(
        self,
        tokens: Tensor,
        sizes: Sequence[int],
        h: Tensor,
        c: Tensor,
        projected: Tensor | None = None,
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Map packed (positions, P) to the L layers' packed outputs and the state after.

        As `layers.stack.Stack.forward`. With `projected` (m, 4D), the first layer's input products,
        `tokens` (positions,) are numbers of rows in it.
        """
        first = self.layers[0]
        if projected is None:
            output, own_h, own_c = first.run(tokens, sizes, h[0], c[0])
        else:
            output, own_h, own_c = first.run_projected(projected, tokens, sizes, h[0], c[0])
        outputs, last_h, last_c = [output], [own_h], [own_c]
        for number, layer in enumerate(self.layers[1:], start=1):
            output, own_h, own_c = layer.run(outputs[-1], sizes, h[number], c[number])
            # the residual, from the second layer on; the carried state is without it
            outputs.append(output + outputs[-1] if self.skip else output)
            last_h.append(own_h)
            last_c.append(own_c)
        return outputs, torch.stack(last_h), torch.stack(last_c)
