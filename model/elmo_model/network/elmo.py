"""ELMo: tokenised sentences in, the vectors of every layer out."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from elmo_model.network.bilm import BiLM
from elmo_model.network.config import ElmoConfig
from elmo_model.network.description import Description
from elmo_model.network.state import Representations, State
from elmo_model.network.task import Task
from elmo_model.network.token_encoder import TokenEmbedder
from elmo_model.text.alphabets import Alphabet


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the weights of a network come from: `revision` is a short SHA-256 of them.

    `description` has the facts that the checkpoint states and the revision does not cover.
    """

    name: str
    format: str
    revision: str
    description: Description = field(default=Description(), compare=False)


class ElmoNetwork(nn.Module):
    """Token embedder and biLM (Peters et al. 2018): the network of the paper, which can be trained.

    `elmo_model.inference.encoder.Encoder` computes the same vectors many times as fast. The weights
    are not initialised here: a checkpoint or `network.initialise` sets them. `tasks` are the scalar
    mixes that came with the checkpoint.
    """

    def __init__(
        self,
        config: ElmoConfig,
        alphabet: Alphabet,
        origin: Origin,
        *,
        dropout: float = 0.0,
        tasks: Sequence[Task] = (),
    ) -> None:
        super().__init__()
        self.config = config
        self.alphabet = alphabet
        self.origin = origin
        self.tasks = tuple(tasks)
        self.token_embedder = TokenEmbedder(config, alphabet)
        self.bilm = BiLM(config.lstm, dropout)
        width = config.dimension
        # (2P, 2P), fitted after training: `Encoder.align` multiplies mixed vectors by it
        self.alignment = nn.Parameter(torch.empty(width, width)) if config.aligned else None

    def forward(
        self, sentences: Sequence[Sequence[str]], state: State | None = None
    ) -> tuple[Representations, State]:
        """Map sentences, lists of tokens, to all layers with boundaries, and the state after.

        An empty sentence is its two boundary tokens; an empty token is a token. `state` belongs to
        places in the batch, not to sentences: row r is for the r-th sentence given. Without one
        every sentence starts from zeros.
        """
        begin, end = self.alphabet.begin, self.alphabet.end
        words = [word for sentence in sentences for word in (begin, *sentence, end)]
        lengths = tuple(len(sentence) + 2 for sentence in sentences)
        layers, after = self.bilm(self.token_embedder(words), lengths, state)
        return Representations(layers, lengths, bounded=True), after

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Map each sentence of n tokens to its layers (L + 1, n, 2P), without boundaries.

        Every sentence starts from zeros and no dropout is applied, so its vectors depend on that
        sentence alone. Computed in inference mode: the vectors have no gradients.
        """
        training = self.training
        self.eval()
        try:
            with torch.inference_mode():
                representations, _ = self(sentences)
        finally:
            self.train(training)
        return [layers[:, representations.inside] for layers in representations.sentences()]
