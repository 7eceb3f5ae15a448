"""What is let into the queue: a call whole or not at all, and no more than can be answered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from elmo_serve.errors import ClientOverShare, DeadlineExceeded, Overloaded, TooLarge
from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.fair_queue import Batcher
from elmo_serve.scheduling.quotas import Shares
from elmo_serve.scheduling.request import cost_of
from elmo_serve.scheduling.throughput import Rate
from elmo_serve.workers.pool import WorkerPool

_LONGEST_RETRY_SECONDS = 60.0
_STRETCH = 8.0  # a call is due after so many times the time that it would take alone
_TRUSTED = 0.5  # of a call's time that is planned with: the rest is for what cannot be foreseen


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be asked for at once."""

    queue_tokens: int
    answer_bytes: int
    client_tokens: int | None = None


@dataclass(slots=True, eq=False)
class Reservation:
    """Bytes of an answer, counted until they are sent."""

    admission: Admission
    size: int

    def release(self) -> None:
        """Give the bytes back, once."""
        self.admission.reserved_bytes -= self.size
        self.size = 0


@dataclass(frozen=True, slots=True)
class Admitted:
    """A call that was let in: its tokens, and the seconds between the moments two of them are due.

    A call has a share of the workers that makes it last a few times as long as alone, and so a
    small one passes those that have more to come; but everything is due at some time, and what
    comes after that does not pass it. A call that this would make late gets a larger share.
    """

    client: str
    cost: int
    pace: float


class Admission:
    """Counts what was let in and is not answered yet, in calls, tokens and bytes."""

    def __init__(
        self, limits: Limits, pool: WorkerPool, batcher: Batcher, rate: Rate, metrics: Metrics
    ) -> None:
        self.calls = 0  # admitted and not yet answered
        self.outstanding = 0  # tokens that they wait for
        self.reserved_bytes = 0
        self._limits = limits
        self._shares = Shares(limits.client_tokens)
        self._pool = pool
        self._batcher = batcher
        self._rate = rate
        self._metrics = metrics

    def reserve(self, size: int) -> Reservation:
        """Count the bytes of an answer that is about to be made.

        Raises:
            TooLarge: the answer alone is over the limit.
            Overloaded: it is not, but there is no room for it beside the others.
        """
        limit = self._limits.answer_bytes
        if size > limit:
            raise TooLarge(
                f"The answer would take {size} bytes and at most {limit} are allowed "
                "(ELMO_MAX_ANSWER_BYTES): send fewer sentences, ask for fewer layers, or pool them."
            )
        if self.reserved_bytes + size > limit:
            raise Overloaded(
                f"{self.reserved_bytes} of {limit} bytes of answers are waiting to be sent; "
                f"{size} more do not fit.",
                retry_after=self._retry_after(self.outstanding),
            )
        self.reserved_bytes += size
        return Reservation(self, size)

    def admit(self, lengths: Sequence[int], timeout_seconds: float, client: str) -> Admitted:
        """Take a call into account, whole, or refuse it.

        Raises:
            TooLarge, ClientOverShare, Overloaded: there is no room.
            DeadlineExceeded: the time is over, or is so before it can be answered.
        """
        if timeout_seconds <= 0:
            self._metrics.failures.labels("deadline").inc()
            raise DeadlineExceeded("The time was over before the sentences could be queued.")
        cost = cost_of(lengths)
        limit = self._limits.queue_tokens
        if cost > limit:
            raise TooLarge(
                f"The request holds {cost} tokens, boundaries included, and at most {limit} are "
                "allowed (ELMO_MAX_QUEUE_TOKENS)."
            )
        self._check_share(client, cost)
        alone = self._seconds(cost)
        if self._rate.is_known and alone > timeout_seconds:
            self._metrics.failures.labels("deadline").inc()
            raise DeadlineExceeded(
                f"The request takes about {alone:.1f} s by itself and {timeout_seconds:g} s are "
                "allowed: send fewer sentences."
            )
        if (refusal := self.refusal(cost, timeout_seconds)) is not None:
            raise refusal
        self.calls += 1
        self._shares.take(client, cost)
        self.outstanding += cost
        return Admitted(client, cost, _span(alone, timeout_seconds) / max(cost, 1))

    def refusal(self, cost: int, timeout_seconds: float) -> Overloaded | None:
        """Return why there is no room now for a request of so many tokens.

        None when there is, and for one that never has room: that is another error.
        """
        limit = self._limits.queue_tokens
        if cost > limit:
            return None
        if self.outstanding + cost > limit:
            return Overloaded(
                f"{self.outstanding} of {limit} tokens are queued; {cost} more do not fit.",
                retry_after=self._retry_after(self.outstanding + cost - limit),
            )
        alone = self._seconds(cost)
        trusted = _TRUSTED * timeout_seconds
        running = max(0, self.outstanding - self._batcher.tokens)
        due = time.monotonic() + _span(alone, timeout_seconds)
        before = self._batcher.tokens_before(due) + running
        expected = self._seconds(before)
        if before and expected + alone > trusted:
            excess = (before + cost) * (1 - trusted / (expected + alone))
            return Overloaded(
                f"The queue is about {expected:.1f} s long, the request takes {alone:.1f} s and "
                f"{timeout_seconds:g} s are allowed.",
                retry_after=self._retry_after(excess),
            )
        return None

    def answered(self, tokens: int) -> None:
        """Count tokens that no call waits for any more."""
        self.outstanding -= tokens

    def end(self, call: Admitted, left: int) -> None:
        """Let a call go that was answered, or never will be: so many of its tokens were not."""
        self.calls -= 1
        self._shares.give_back(call.client, call.cost)
        self.outstanding -= left

    def _check_share(self, client: str, cost: int) -> None:
        """Refuse what one client may not have, whatever the others have."""
        limit, excess = self._shares.limit, self._shares.excess(client, cost)
        if limit is None or not excess:
            return
        if cost > limit:
            raise TooLarge(
                f"The request holds {cost} tokens, boundaries included, and at most {limit} are "
                "allowed for one client (ELMO_MAX_CLIENT_TOKENS)."
            )
        raise ClientOverShare(
            f"This client has {self._shares.held(client)} of its {limit} tokens queued; {cost} "
            "more do not fit.",
            retry_after=self._retry_after(excess),
        )

    def _retry_after(self, tokens: float) -> float:
        """Return the seconds until this many tokens have left."""
        if not self._rate.is_known:
            return 1.0
        return min(self._seconds(tokens), _LONGEST_RETRY_SECONDS)

    def _seconds(self, tokens: float) -> float:
        return self._rate.seconds(tokens, self._pool.ready_count)


def _span(alone: float, timeout_seconds: float) -> float:
    """Return the seconds after which all of a call is due."""
    return min(_STRETCH * alone, max(alone, _TRUSTED * timeout_seconds))
