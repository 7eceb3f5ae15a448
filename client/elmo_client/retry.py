"""One request until it is answered: when it is sent again, how often, and after what pause."""

from __future__ import annotations

import email.utils
import random
import time
from typing import Any

import httpx
import orjson

from elmo_client.errors import BadAnswer, Unreachable, refusal
from elmo_client.steps import Call, Pause, Steps

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_LATER = (429, 503)
# The connection was lost or never made: nobody knows whether the request was seen.
_LOST = (httpx.NetworkError, httpx.RemoteProtocolError)
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def exchange(call: Call, patience_seconds: float, first: int = 0) -> Steps[httpx.Response]:
    """Send a call, and again where that may help; return the 2xx answer.

    `first` is the number of its first sentence, for the error. Raises the errors of this package.
    """
    failures, failing_since = 0, 0.0
    while True:
        outcome: httpx.Response | httpx.HTTPError
        try:
            outcome = yield call
        except httpx.HTTPError as error:
            outcome = error
        if isinstance(outcome, httpx.Response) and outcome.is_success:
            return outcome
        pause = _pause(call, outcome, failures)
        failures += 1
        # Patience begins with the first failure: the answer itself may have taken longer.
        failing_since = failing_since or time.monotonic()
        spent = time.monotonic() - failing_since
        if pause is None or spent + pause > patience_seconds:
            raise _error(outcome, failures, spent, first)
        yield Pause(pause)


def json_of(response: httpx.Response) -> Any:
    """Return the JSON of an answer; raises BadAnswer where there is none."""
    try:
        return orjson.loads(response.content)
    except orjson.JSONDecodeError as error:
        raise BadAnswer(f"the answer is no JSON: {error}") from error


def _pause(call: Call, outcome: httpx.Response | httpx.HTTPError, failures: int) -> float | None:
    """Return the seconds before the next attempt; None where none should follow."""
    backed_off = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 16), _LONGEST_PAUSE_SECONDS)
    # Many that were refused at once should not all come back at once.
    backed_off *= random.uniform(0.5, 1.0)
    if isinstance(outcome, httpx.Response):
        if outcome.status_code not in _LATER:
            return None
        named = _retry_after(outcome.headers.get("retry-after", ""))
        return backed_off if named is None else named + random.uniform(0, 0.1 * named)
    may_repeat = _NEVER_SENT if not call.repeatable else (*_NEVER_SENT, *_LOST)
    return backed_off if isinstance(outcome, may_repeat) else None


def _retry_after(value: str) -> float | None:
    """Return the seconds of a Retry-After, which is a number or a date (RFC 9110, 10.2.3)."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _error(
    outcome: httpx.Response | httpx.HTTPError, attempts: int, seconds: float, first: int
) -> Exception:
    if isinstance(outcome, httpx.Response):
        return refusal(outcome.status_code, outcome.content, outcome.headers, first)
    tried = f" ({attempts} attempts in {seconds:.1f} s)" if attempts > 1 else ""
    why = str(outcome) or type(outcome).__name__
    if isinstance(outcome, httpx.TimeoutException):
        why = f"no answer in time: {type(outcome).__name__}"
    error = Unreachable(f"{why}{tried}")
    error.__cause__ = outcome
    return error
