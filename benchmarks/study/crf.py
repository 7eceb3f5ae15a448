"""A linear-chain conditional random field (Lafferty et al. 2001): labels of whole sentences."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_model.tasks.scores import is_bio, legal_transitions

_IMPOSSIBLE = -1e4
"""Score of an illegal step in decoding: far below every learned one."""


class Crf(nn.Module):
    """Scores a sequence of C classes: emissions, transitions, and the first and the last label.

    BIO labels decode to legal sequences alone; other labels may follow each other freely.
    """

    def __init__(self, classes: Sequence[str]) -> None:
        super().__init__()
        count = len(classes)
        self.start = nn.Parameter(torch.zeros(count))
        self.end = nn.Parameter(torch.zeros(count))
        self.transitions = nn.Parameter(torch.zeros(count, count))
        starts, follows = torch.ones(count).bool(), torch.ones(count, count).bool()
        if is_bio(classes):
            starts, follows = (torch.from_numpy(legal) for legal in legal_transitions(classes))
        self.starts: Tensor
        self.follows: Tensor
        self.register_buffer("starts", starts, persistent=False)
        self.register_buffer("follows", follows, persistent=False)

    def loss(self, emissions: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        """Return the mean negative log-likelihood of B sentences.

        `emissions` is (B, time, C), `labels` (B, time) and `lengths` (B,); a length is 1 or more.
        """
        return (self._log_sum(emissions, lengths) - self._score(emissions, labels, lengths)).mean()

    def best(self, emissions: Tensor, lengths: Tensor) -> list[list[int]]:
        """Map emissions (B, time, C) to the most probable labels of each sentence (Viterbi)."""
        step = self.transitions.masked_fill(~self.follows, _IMPOSSIBLE)
        scores = emissions[:, 0] + self.start.masked_fill(~self.starts, _IMPOSSIBLE)
        arrivals = []
        for time in range(1, emissions.shape[1]):
            found, arrival = (scores[:, :, None] + step).max(dim=1)
            inside = (time < lengths)[:, None]
            scores = torch.where(inside, found + emissions[:, time], scores)
            arrivals.append(arrival)
        last = (scores + self.end).argmax(dim=1).tolist()
        return [
            self._path(arrivals, row, int(length), label)
            for row, (length, label) in enumerate(zip(lengths.tolist(), last, strict=True))
        ]

    @staticmethod
    def _path(arrivals: list[Tensor], row: int, length: int, last: int) -> list[int]:
        labels = [last]
        for arrival in reversed(arrivals[: length - 1]):
            labels.append(int(arrival[row, labels[-1]]))
        return labels[::-1]

    def _log_sum(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """Return the log of the sum over all label sequences, (B,): the forward algorithm."""
        scores = self.start + emissions[:, 0]
        for time in range(1, emissions.shape[1]):
            found = torch.logsumexp(scores[:, :, None] + self.transitions, dim=1)
            inside = (time < lengths)[:, None]
            scores = torch.where(inside, found + emissions[:, time], scores)
        return torch.logsumexp(scores + self.end, dim=1)

    def _score(self, emissions: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        """Return the score of the given label sequences, (B,)."""
        inside = torch.arange(labels.shape[1])[None] < lengths[:, None]
        own = emissions.gather(2, labels[:, :, None])[:, :, 0]
        steps = self.transitions[labels[:, :-1], labels[:, 1:]]
        last = labels.gather(1, lengths[:, None] - 1)[:, 0]
        total = (own * inside).sum(dim=1) + (steps * inside[:, 1:]).sum(dim=1)
        return total + self.start[labels[:, 0]] + self.end[last]
