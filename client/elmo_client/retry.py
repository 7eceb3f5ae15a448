"""When a failed request is sent again, and after which pause."""

import email.utils
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx

Outcome = httpx.Response | httpx.HTTPError

NEVER_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout)

FIRST_CONTACT_SECONDS = 5.0
"""How long connections are tried to a server that has never responded to this client.

A wrong address then fails within seconds. A server that responded before may be restarting, and is
tried for `patience_seconds`.
"""

# Seconds of the back-off: doubled after each attempt, from the first to the longest. A longest
# pause above the start of a server (some 5 s) would only delay the recovery.
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0

_TRY_LATER = (429, 503)
# Statuses by which a proxy reports that the server of a request was lost: Ray's, and most others.
_LOST_BEHIND_PROXY = (500, 502)
_OWN_ERRORS = "application/problem+json"  # the media type of every error of elmo-serve
# The request was never sent, or the connection broke: it may be processed twice.
_LOST = (*NEVER_CONNECTED, httpx.PoolTimeout, httpx.NetworkError, httpx.RemoteProtocolError)


@dataclass(slots=True)
class Attempts:
    """The failed attempts at one request, until `patience_seconds` after the first failure.

    The patience begins with the first failure: the response itself may take longer.
    """

    patience_seconds: float
    clock: Callable[[], float] = time.monotonic
    failures: int = 0
    failing_since: float = 0.0

    def pause(self, outcome: Outcome, *, responded: bool) -> float | None:
        """Count a failure; return the seconds to wait before the next attempt, None for no more.

        `responded` tells whether the server has ever responded.
        """
        now = self.clock()
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        pause = self._pause(outcome)
        patience = self.patience_seconds
        if isinstance(outcome, NEVER_CONNECTED) and not responded:
            patience = min(patience, FIRST_CONTACT_SECONDS)
        if pause is None or now - self.failing_since + pause > patience:
            return None
        return pause

    def __str__(self) -> str:
        if self.failures < 2:
            return ""
        seconds = self.clock() - self.failing_since
        return f" ({self.failures} attempts in {seconds:.1f} s)"

    def _pause(self, outcome: Outcome) -> float | None:
        doublings = min(self.failures - 1, 16)
        backed_off = min(_FIRST_PAUSE_SECONDS * 2.0**doublings, _LONGEST_PAUSE_SECONDS)
        # Jitter: clients that were refused together do not come back together.
        backed_off *= random.uniform(0.5, 1.0)
        if isinstance(outcome, httpx.Response):
            if _is_of_proxy(outcome):
                return backed_off
            if outcome.status_code not in _TRY_LATER:
                return None
            named = retry_after(outcome.headers.get("retry-after", ""), time.time())
            if named is None or named < backed_off:  # 0 and dates of the past ask for a pause, too
                return backed_off
            return named + random.uniform(0, 0.1 * named)
        return backed_off if isinstance(outcome, _LOST) else None


def _is_of_proxy(response: httpx.Response) -> bool:
    """Tell whether a proxy has lost the server; an error of the server itself would come again."""
    media_type = response.headers.get("content-type", "")
    return response.status_code in _LOST_BEHIND_PROXY and not media_type.startswith(_OWN_ERRORS)


def retry_after(value: str, now: float) -> float | None:
    """Return the seconds of a Retry-After header, a number or a date (RFC 9110, 10.2.3).

    `now` is the time since the epoch in seconds. None if the value is neither.
    """
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (TypeError, ValueError):
        return None
