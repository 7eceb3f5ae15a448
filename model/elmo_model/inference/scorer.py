"""The language model for inference: surprisal of words, and the most probable ones at a place."""

import math
from collections.abc import Generator, Iterator, Sequence
from typing import Literal, TypeVar, cast

import orjson
import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.inference.encoder import Encoder
from elmo_model.inference.linear import QuantisedLinear, TorchLinear, has_eight_bits
from elmo_model.network.row_bytes import to_bytes
from elmo_model.network.softmax import WordSoftmax
from elmo_model.threads import inference

Direction = Literal["forward", "backward", "both"]

Result = TypeVar("Result")

Steps = Generator[None, None, Result]
"""A computation that stops after each part of its rows or places."""

MAX_WORD_BYTES = 128
"""Longest word, in bytes of its JSON text, that is offered as a substitute."""

_WORDS = 4096
"""Words of one product on a CPU, with the rows of a step: more cost fewer calls, and leave the
cache of a core."""
_STEP_ROWS, _STEP_PLACES = 128, 32
"""Rows of a score, and positions of substitutes, computed between two stops. Larger steps are a
little faster and delay interruptions: 128 rows take 0.12 s on two cores with 50,000 words."""
_WHOLE_LOGITS = 1 << 23
"""Logits in memory at once where all words of a place are compared; one place has at least one row
of them."""
_RANK_OFFSET = 2.7
"""Of Zipf's law as Mandelbrot has it: the share of a word in running text is nearly proportional to
1 / (rank + 2.7). A larger offset lets the most frequent words be substitutes more often."""
_SAFE = 60.0
"""Largest magnitude of a logarithm of a sum that is added up without regard to its largest term:
exp of a float32 is 0 below -87 and infinite above 88."""


class Scorer:
    """The softmax of a language model over the top layer of an encoder's network.

    The forward direction predicts a token after the begin boundary and the tokens before it, the
    backward direction after the end boundary and the tokens behind it. Used by one thread.
    """

    def __init__(self, encoder: Encoder, softmax: WordSoftmax) -> None:
        ends = encoder.encode_whole([[]], bounded=True).layers[-1]  # (2, 2P)
        self._width, self._directions = ends.shape[1] // 2, encoder.bilm.directions
        # The vectors of the boundaries are the same for all sentences.
        self._begin, self._end = ends[:1, : self._width], ends[1:, self._width :]
        self._softmax = softmax.to(ends.device)
        self._has_bytes = (
            softmax.scale is not None and ends.device.type == "cpu" and has_eight_bits()
        )
        form = QuantisedLinear if self._has_bytes else TorchLinear
        block = _WORDS if ends.device.type == "cpu" else len(softmax.bias)
        starts = range(0, len(softmax.bias), block)
        self._products = [form(self._softmax.rows(slice(i, i + block))) for i in starts]
        self._factors = torch.split(self._softmax.bias.exp(), block)
        self.vocabulary = softmax.vocabulary
        words = self.vocabulary.words
        begin, end, self._unknown = self.vocabulary.word_ids(
            [self.vocabulary.begin, self.vocabulary.end, "<UNK>"]
        ).tolist()
        long = [row for row, text in enumerate(words) if len(orjson.dumps(text)) > MAX_WORD_BYTES]
        self._boundaries = begin, end
        self._excluded = torch.tensor([begin, end, self._unknown, *long]).to(ends.device)
        self._log_shares = self._estimated_log_shares().to(ends.device)

    def surprisal(
        self, sentences: Sequence[Sequence[str]], found: Sequence[Tensor]
    ) -> Steps[list[Tensor]]:
        """Map each sentence of n tokens to (3, n + 1): forward, backward, and 1 for unknown.

        Stops after at most 128 rows, which are those of 64 tokens.

        The values are bits, -log2 of the probability of each token; the last column has that of the
        end boundary forward, and of the begin boundary backward. `found` are the layers
        (L + 1, n, 2P) of each sentence, without boundaries.
        """
        begin, end = self._boundaries
        rows, targets = list[Tensor](), list[Tensor]()
        for sentence, layers in zip(sentences, found, strict=True):
            ahead, behind = self._around(layers[-1])
            words = torch.from_numpy(self.vocabulary.word_ids(sentence))
            rows += [ahead, behind]
            targets += [functional.pad(words, (0, 1), value=each) for each in (end, begin)]
        if not rows:
            return []
        ids = torch.cat(targets).to(rows[0].device, non_blocking=True)
        bits = yield from _in_inference(ids.device, self._bits(torch.cat(rows), ids))
        both = torch.stack((bits, (ids == self._unknown).float()))
        parts = torch.split(both, [2 * len(sentence) + 2 for sentence in sentences], dim=1)
        return [_three_rows(part) for part in parts]

    def substitutes(
        self, found: Tensor, places: Sequence[int], k: int, direction: Direction
    ) -> Steps[list[list[dict[str, str | float]]]]:
        """Return the k most probable words at each place of a sentence, and their probabilities.

        Stops after at most 32 places.

        `found` are the layers (L + 1, n, 2P) of the sentence. "both" is the product of the two
        directions divided by the share of the word in the training text, which both have counted,
        normalised over all candidates. Boundaries and `<UNK>` are none.
        """
        vectors = [each[list(places)] for each in self._around(found[-1])]
        step = max(1, min(_STEP_PLACES, _WHOLE_LOGITS // len(self._softmax.bias)))
        lists = []
        for start in range(0, len(places), step):
            ahead, behind = (each[start : start + step] for each in vectors)
            with inference(ahead.device):
                logs = self._log_probabilities(ahead, behind, direction)
                logs[:, self._excluded] = -torch.inf
                best = logs.topk(min(k, logs.shape[1] - len(self._excluded)), dim=1)
            for values, rows in zip(best.values.exp().tolist(), best.indices.tolist(), strict=True):
                words = [self.vocabulary.words[row] for row in rows]
                pairs = zip(words, values, strict=True)
                lists.append([{"word": word, "probability": value} for word, value in pairs])
            yield
        return lists

    def _around(self, top: Tensor) -> tuple[Tensor, Tensor]:
        """Map the top layer (n, 2P) to the vectors (n + 1, P) of each direction that predict.

        The last ones predict the boundary behind the sentence, and the one before it.
        """
        ahead = torch.cat((self._begin, top[:, : self._width]))
        behind = torch.cat((top[1:, self._width :], self._end, top[:1, self._width :]))
        return ahead, behind

    def _log_probabilities(self, ahead: Tensor, behind: Tensor, direction: Direction) -> Tensor:
        """Map the vectors (m, P) of both directions to logarithms (m, V) that sum to 1 as exp.

        With both directions, p(w | before) p(w | after) / p(w): Bayes' rule for independent
        contexts. Words that are no substitutes have no part in it.
        """
        logs = [
            self._logits(each).log_softmax(dim=1)
            for name, each in (("forward", ahead), ("backward", behind))
            if direction in (name, "both")
        ]
        if len(logs) == 1:
            return logs[0]
        both = logs[0].add_(logs[1]).sub_(self._log_shares)
        both[:, self._excluded] = -torch.inf
        return both.log_softmax(dim=1)

    def _estimated_log_shares(self) -> Tensor:
        """Return the logarithm (V,) of each word's share of the text, by its rank.

        A vocabulary lists words by falling frequency; boundaries and `<UNK>` have no rank.
        """
        is_word = torch.ones(len(self.vocabulary.words))
        is_word[[*self._boundaries, self._unknown]] = 0
        return -is_word.cumsum(0).add_(_RANK_OFFSET).log_()

    def _bits(self, rows: Tensor, targets: Tensor) -> Steps[Tensor]:
        """Map vectors (N, P) and N words to their surprisal in bits (N,).

        Rows where exp comes near the limits of float32 are computed again from their logits.
        """
        own = (rows * self._softmax.rows(targets)).sum(dim=1) + self._softmax.bias[targets]
        parts = []
        for part in torch.split(rows, _STEP_ROWS):
            parts.append(self._log_sums(part))
            yield
        sums = torch.cat(parts)
        if (unsafe := ~(sums.abs() < _SAFE)).any():  # the one wait for a device
            most = max(1, min(_STEP_ROWS, _WHOLE_LOGITS // len(self._softmax.bias)))
            parts = []
            for part in torch.split(rows[unsafe], most):
                parts.append(self._logits(part).logsumexp(dim=1))
                yield
            sums[unsafe] = torch.cat(parts)
        return (sums - own) / math.log(2)

    def _log_sums(self, rows: Tensor) -> Tensor:
        """Map (N, P) to the logarithms (N,) of the sums of exp over all logits.

        On a CPU each half of the rows has half of the cores.
        """
        if rows.device.type != "cpu":
            return self._log_sums_by_block(rows)
        half = len(rows) // 2
        both = self._directions.run(
            lambda: self._log_sums_by_block(rows[:half]),
            lambda: self._log_sums_by_block(rows[half:]),
        )
        return torch.cat(both)

    def _log_sums_by_block(self, rows: Tensor) -> Tensor:
        """Map (N, P) to the logarithms (N,) of the sums of exp over all logits, block by block.

        A sum is that of exp of each product times exp of its bias: no pass over the products looks
        for the largest one.
        """
        total = rows.new_zeros(len(rows))
        for products, factors in zip(self._blocks(rows), self._factors, strict=True):
            total.addmv_(products.exp_(), factors)
        return total.log_()

    def _logits(self, rows: Tensor) -> Tensor:
        """Map (m, P) to all logits (m, V)."""
        return torch.cat(list(self._blocks(rows)), dim=1).add_(self._softmax.bias)

    def _blocks(self, rows: Tensor) -> Iterator[Tensor]:
        """Yield the products of (m, P) with the rows of each block of words, without the bias."""
        if not self._has_bytes:
            for product in self._products:
                yield product.linear(rows)
            return
        halves = _halves(rows)
        for product in self._products:
            coarse, rest = product.linear(halves).chunk(2)
            yield coarse.add_(rest)


def _in_inference(device: torch.device, steps: Steps[Result]) -> Steps[Result]:
    """Compute each step without gradients, also in a caller's autocast, and stop outside of it."""
    while True:
        with inference(device):
            try:
                next(steps)
            except StopIteration as end:
                return cast("Result", end.value)
        yield


def _halves(rows: Tensor) -> Tensor:
    """Map (m, P) to (2m, P): rows that bytes hold exactly, and the rest of each.

    Bytes with a scale a row hold the rest to 1/254 of a step of the first, so that their sum has 15
    bits.
    """
    rounded, scale = to_bytes(rows)
    coarse = rounded * scale
    return torch.cat((coarse, rows - coarse))


def _three_rows(part: Tensor) -> Tensor:
    """Map surprisal and unknown (2, 2n + 2), forward and then backward, to (3, n + 1)."""
    bits, unknown = part
    ahead, behind = bits.chunk(2)
    return torch.stack((ahead, behind, unknown[: len(ahead)]))
