"""Admission control: a request is admitted whole or refused at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from elmo_serve.errors import DeadlineExceeded, Overloaded, TooLarge
from elmo_serve.scheduling.budgets import Budget, Hold
from elmo_serve.scheduling.dispatcher import Dispatcher
from elmo_serve.scheduling.request import Sentences
from elmo_serve.scheduling.throughput import Backlog

_LONGEST_RETRY_SECONDS = 60
"""Upper limit of `Retry-After`: an estimate for longer is over a queue that will have changed."""

_MAX_SLOWDOWN = 8.0
"""Virtual duration of a request, in multiples of the time that it takes on idle workers. Raising it
lets short requests overtake more of a long one (`benchmarks.fairness`)."""

_PLANNED_SHARE = 0.5
"""Share of a request's timeout that its wait and its computation may take by the estimate. The rest
is for estimates that are wrong and for requests that overtake. Raising it admits more requests of
which more miss their deadline (`benchmarks.fairness`, goodput)."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The most that may be in use at once.

    `tokens` may be queued or running of interactive requests, and as many of bulk; `answer_bytes`
    may wait to be sent. `connections` is the largest number of requests at a time.
    """

    tokens: int
    answer_bytes: int
    connections: int = 0


@dataclass(frozen=True, slots=True)
class Admitted:
    """The account of an admitted request, and its class.

    A request is bulk if it is larger than a batch, if it asks for anything but vectors, or if its
    caller says so. `tokens` are given back as sentences are answered, and the rest when the request
    ends. `virtual_seconds_per_token` lie between the virtual start times of two consecutive tokens.
    """

    is_bulk: bool
    tokens: Hold
    virtual_seconds_per_token: float


class Admission:
    """Admits requests while tokens and time allow it, and counts the tokens that they use.

    The tokens of interactive requests and of bulk are counted apart, so that bulk never refuses
    interactive ones.
    """

    def __init__(
        self,
        limits: QueueLimits,
        dispatchers: Mapping[str, Dispatcher],
    ) -> None:
        self._dispatchers = dispatchers
        self._interactive, self._bulk = (
            Budget(
                limits.tokens,
                f"tokens of {kind} requests",
                "ELMO_MAX_QUEUE_TOKENS",
                connections=limits.connections,
            )
            for kind in ("interactive", "bulk")
        )

    @property
    def outstanding(self) -> int:
        """Tokens of sentences that are admitted and not yet answered, boundaries included."""
        return self._interactive.used + self._bulk.used

    def admit(
        self,
        sentences: Sentences,
        timeout_seconds: float,
        client: str,
        model: str,
        *,
        is_bulk: bool = False,
    ) -> Admitted:
        """Count the sentences of a request, or refuse it.

        Raises:
            TooLarge: it never has room, or takes longer than its timeout by itself at the best pace
                that batches confirmed. Else its deadline decides.
            ClientOverShare, Overloaded: there is no room now.
            DeadlineExceeded: the timeout is over.
        """
        if timeout_seconds <= 0:
            raise DeadlineExceeded("The time was over before the sentences could be queued.")
        dispatcher, cost = self._dispatchers[model], sentences.cost
        is_bulk = is_bulk or sentences.is_bulk or cost > dispatcher.pool.interactive_size
        budget = self._bulk if is_bulk else self._interactive
        excess = budget.excess(client, cost)
        alone = cost * dispatcher.best_seconds_per_token
        if alone > timeout_seconds:
            # Not DeadlineExceeded: clients send a 504 again, and this request is never in time.
            raise TooLarge(
                f"The request takes about {alone:.3g} s by itself, longer than its "
                f"{timeout_seconds:.3g} s (ELMO_REQUEST_TIMEOUT_SECONDS, X-Request-Timeout): send "
                "fewer sentences."
            )
        estimate = _Estimate.of(dispatcher, sentences.work, timeout_seconds, is_bulk=is_bulk)
        if excess:
            seconds = max(estimate.seconds_to_room, excess * dispatcher.seconds_per_token)
            raise budget.refusal(client, cost, min(seconds, _LONGEST_RETRY_SECONDS))
        if not estimate.has_room():
            raise estimate.refusal
        held = budget.hold(client, cost)
        return Admitted(is_bulk, held, estimate.virtual_seconds / max(cost, 1))

    def check_unread(self, timeout_seconds: float, models: Iterable[str]) -> None:
        """Raise Overloaded where the smallest interactive request has no room at any of `models`.

        Nothing is known of the request but its timeout: this needs no body.
        """
        refusals = []
        for model in models:
            estimate = _Estimate.of(self._dispatchers[model], 0, timeout_seconds, is_bulk=False)
            if estimate.has_room():
                return
            refusals.append(estimate.refusal)
        if refusals:
            raise min(refusals, key=lambda refusal: refusal.retry_after)


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Whether a request has room: nothing is ahead of it, or it would be done in time.

    `alone` are the seconds that it takes on idle workers, `planned` those within which it must be
    done.
    """

    backlog: Backlog
    alone: float
    planned: float
    is_bulk: bool

    @classmethod
    def of(
        cls, dispatcher: Dispatcher, work: int, timeout_seconds: float, *, is_bulk: bool
    ) -> Self:
        """Return the estimate for `work` tokens, which a client waits so long for."""
        alone = work * dispatcher.seconds_per_token
        return cls(dispatcher.backlog, alone, _PLANNED_SHARE * timeout_seconds, is_bulk)

    @property
    def virtual_seconds(self) -> float:
        """The virtual duration of the request.

        It is `_MAX_SLOWDOWN` times the time that it takes on idle workers, or less where the
        deadline is nearer: such a request gets a larger share of the workers.
        """
        return min(_MAX_SLOWDOWN * self.alone, max(self.alone, self.planned))

    def has_room(self, later: float = 0.0) -> bool:
        """Tell whether the request has room, or would have so many seconds later."""
        wait = self.backlog.wait(is_bulk=self.is_bulk, later=later)
        return wait <= 0 or wait + self.alone <= self.planned

    @property
    def seconds_to_room(self) -> int:
        """The first whole second from now at which there is room, or a minute."""
        seconds = range(1, _LONGEST_RETRY_SECONDS)
        return next(filter(self.has_room, seconds), _LONGEST_RETRY_SECONDS)

    @property
    def refusal(self) -> Overloaded:
        """The error for a request without room."""
        wait = self.backlog.wait(is_bulk=self.is_bulk)
        return Overloaded(
            f"The queue is about {wait:.1f} s long and the request takes {self.alone:.1f} s: "
            f"together more than {self.planned:.3g} s, half of its time.",
            retry_after=self.seconds_to_room,
        )
