"""A plan as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from elmo_serve.capacity.plan import Plan
from elmo_serve.load_test.latencies import PERCENTILES

_MEGA, _GIGA = 1e6, 1e9


def lines(plan: Plan, price: float | None = None, cores: int | None = None) -> Iterator[str]:
    """Yield the lines of a plan. `price` is that of an hour of a replica, `cores` those of one."""
    measured, goal, found = plan.measured, plan.goal, plan.tried.found
    latency, replicas = found.latencies, plan.tried.replicas
    times = [f"p{each:g} {1e3 * latency.percentile(each):,.0f}" for each in PERCENTILES]
    missing = (found.refused + found.late) / max(found.sent, 1)
    rate = goal.tokens_per_second
    own = plan.replica_tokens_per_second
    share = f", {own / cores:,.0f} a core" if cores else ""
    yield f"load          {rate:,.0f} tokens/s at the peak, {plan.tokens_per_day:,.3g} tokens a day"
    yield (
        f"requests      {rate / measured.mean_tokens:,.1f}/s of {measured.mean_tokens:,.0f} tokens "
        f"in {sum(map(len, measured.lengths)) / len(measured.lengths):,.1f} sentences"
    )
    yield (
        f"a batch       {1e3 * measured.batch_time.fixed:,.2f} ms and "
        f"{1e6 * measured.batch_time.per_token:,.1f} µs a token"
    )
    yield f"a replica     {own:,.0f} tokens/s with full batches{share}"
    yield (
        f"replicas      {replicas:,}, which use {plan.used:.0%} of that at the peak; "
        f"workers are busy {found.busy:.0%} of the time"
    )
    yield f"latency       {', '.join(times)} ms; refused or late {missing:.2%}"
    yield (
        f"network       {rate * measured.bytes_in / _MEGA:,.2f} MB/s in, "
        f"{rate * measured.bytes_out / _MEGA:,.1f} MB/s out"
    )
    day = plan.tokens_per_day * measured.bytes_out
    yield f"a day         {day / _GIGA:,.1f} GB of vectors, {replicas * 24:,} replica-hours"
    hours = plan.replica_hours_per_million_tokens
    yield (
        f"cost          {hours:.3g} x the price of a replica for an hour, for a million tokens"
        + (f": {hours * price:.3g} at {price:g}" if price is not None else "")
    )
    yield ""
    yield from _volume(plan)


def _volume(plan: Plan) -> Iterator[str]:
    table = plan.bytes_per_token()
    names = [media.rpartition("/")[2].removeprefix("vnd.") for media in next(iter(table.values()))]
    names = [name.removeprefix("apache.").removesuffix(".stream") for name in names]
    header = "".join(f"{name:>14}" for name in names)
    yield f"{'bytes a token':<16}{header}"
    for selection, row in table.items():
        yield f"{selection:<16}" + "".join(f"{size:>14,.0f}" for size in row.values())
