"""Admission control: a request is admitted whole or refused at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from elmo_serve.errors import ClientOverShare, DeadlineExceeded, Overloaded, TooLarge
from elmo_serve.scheduling.budgets import Budget, Hold
from elmo_serve.scheduling.dispatcher import Dispatcher

_LONGEST_RETRY_SECONDS = 60.0
"""Upper limit of `Retry-After`: an estimate for longer is over a queue that will have changed."""

_MAX_SLOWDOWN = 8.0
"""Virtual duration of a request, in multiples of the time that it takes on idle workers. Raising it
lets short requests overtake more of a long one (`benchmarks.fairness`)."""

_PLANNED_SHARE = 0.5
"""Share of a request's timeout that its wait and its computation may take by the estimate. The rest
is for estimates that are wrong and for requests that overtake. Raising it admits more requests of
which more miss their deadline (`benchmarks.fairness`, goodput)."""

_INTERACTIVE_SHARE = 0.5
"""Least share of the workers that interactive requests have, whatever bulk is queued or running."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that may be in use at once: tokens queued or running, bytes of answers not sent.

    `answer_bytes` are counted by the engine. `client_tokens` is the limit of tokens for each
    client; None means no limit.
    """

    queue_tokens: int
    answer_bytes: int
    client_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """The account of an admitted request, and its class.

    A request is bulk if it is larger than a batch or if its caller says so.
    `tokens` are given back as sentences are answered, and the rest when the request ends.
    `virtual_seconds_per_token` lie between the virtual start times of two consecutive tokens.
    """

    is_bulk: bool
    tokens: Hold
    virtual_seconds_per_token: float


class Admission:
    """Admits requests while tokens and time allow it, and counts what they use."""

    def __init__(
        self,
        limits: Limits,
        backlogs: Mapping[str, Dispatcher],
        clock: Callable[[], float],
    ) -> None:
        self._backlogs = backlogs
        self._default = next(iter(backlogs))
        self._clock = clock
        self._limits = limits
        self._tokens = Budget()

    @property
    def outstanding(self) -> int:
        """Tokens of sentences that are admitted and not yet answered, boundaries included."""
        return self._tokens.used

    def admit(
        self,
        cost: int,
        timeout_seconds: float,
        client: str = "",
        model: str | None = None,
        *,
        is_bulk: bool = False,
    ) -> Admitted:
        """Count a request of `cost` tokens, or refuse it.

        The estimated wait of a request that `is_bulk`, or is larger than a batch, includes all work
        scheduled before it, that of an interactive one only other interactive requests.

        Raises:
            TooLarge: it never has room, or takes longer than its timeout by itself at the best pace
                that batches confirmed. Else its deadline decides.
            ClientOverShare, Overloaded: there is no room now.
            DeadlineExceeded: the timeout is over.
        """
        if timeout_seconds <= 0:
            raise DeadlineExceeded("The time was over before the sentences could be queued.")
        model = model or self._default
        backlog = self._backlogs[model]
        if cost > self._limits.queue_tokens:
            raise _too_large(cost, self._limits.queue_tokens, "(ELMO_MAX_QUEUE_TOKENS)")
        self._check_client(client, cost, backlog)
        alone = cost * backlog.best_seconds_per_token
        if alone > timeout_seconds:
            # Not DeadlineExceeded: clients send a 504 again, and this request is never in time.
            raise TooLarge(
                f"The request takes about {alone:.3g} s by itself, longer than its "
                f"{timeout_seconds:.3g} s (ELMO_REQUEST_TIMEOUT_SECONDS, X-Request-Timeout): send "
                "fewer sentences."
            )
        refusal = self.refusal(cost, timeout_seconds, model, is_bulk=is_bulk)
        if refusal is not None:
            raise refusal
        seconds = _virtual_duration(cost * backlog.seconds_per_token, timeout_seconds)
        return Admitted(
            is_bulk or cost > backlog.pool.interactive_size,
            self._tokens.hold(client, cost),
            seconds / max(cost, 1),
        )

    def refusal(
        self,
        cost: int,
        timeout_seconds: float,
        model: str | None = None,
        *,
        is_bulk: bool = False,
    ) -> Overloaded | None:
        """Return the reason why a request of `cost` tokens has no room now, or None.

        A request that never has room gets None as well: `admit` raises another error for it.
        """
        if cost > self._limits.queue_tokens:
            return None
        model = model or self._default
        backlog = self._backlogs[model]
        excess = self.outstanding + cost - self._limits.queue_tokens
        if excess > 0:
            busy = [each for each in self._backlogs.values() if each.tokens_before(math.inf)]
            return Overloaded(
                f"{self.outstanding} of {self._limits.queue_tokens} tokens are queued; {cost} more "
                "do not fit.",
                retry_after=max(_retry_after(each, excess) for each in busy or [backlog]),
            )
        alone = cost * backlog.seconds_per_token
        virtual_end = self._clock() + _virtual_duration(alone, timeout_seconds)
        ahead = backlog.tokens_before(virtual_end)
        if not is_bulk and cost <= backlog.pool.interactive_size:
            interactive = backlog.interactive_tokens_before(virtual_end)
            ahead = min(ahead, interactive / _INTERACTIVE_SHARE)
        wait, planned = ahead * backlog.seconds_per_token, _PLANNED_SHARE * timeout_seconds
        if not ahead or wait + alone <= planned:
            return None
        return Overloaded(
            f"The queue is about {wait:.1f} s long and the request takes {alone:.1f} s: together "
            f"more than {planned:.3g} s, half of its time.",
            retry_after=_retry_after(backlog, ahead),
        )

    def _check_client(self, client: str, cost: int, backlog: Dispatcher) -> None:
        """Raise an error when the request is over the limit of its client."""
        limit, used = self._limits.client_tokens, self._tokens.used_by(client)
        if limit is None or used + cost <= limit:
            return
        if cost > limit:
            raise _too_large(cost, limit, "for one client (ELMO_MAX_CLIENT_TOKENS)")
        raise ClientOverShare(
            f"This client has {used} of its {limit} tokens queued; {cost} more do not fit.",
            retry_after=_retry_after(backlog, used + cost - limit),
        )


def _too_large(cost: int, limit: int, setting: str) -> TooLarge:
    return TooLarge(
        f"The request holds {cost} tokens, boundaries included, and at most {limit} are allowed "
        f"{setting}."
    )


def _retry_after(backlog: Dispatcher, tokens: float) -> float:
    """Return the estimated seconds until `tokens` have been computed."""
    if not backlog.throughput.is_measured:
        return 1.0
    return min(tokens * backlog.seconds_per_token, _LONGEST_RETRY_SECONDS)


def _virtual_duration(alone: float, timeout_seconds: float) -> float:
    """Return the virtual duration of a request that takes `alone` seconds on idle workers.

    It is `_MAX_SLOWDOWN` times as long, or less where the deadline is nearer: such a request gets a
    larger share of the workers.
    """
    return min(_MAX_SLOWDOWN * alone, max(alone, _PLANNED_SHARE * timeout_seconds))
