"""Operations on one task through several servers, checked as a history.

A task is a register: PUT writes it, DELETE empties it, GET reads it. A history is right when the
operations have an order that agrees with their times and in which each response is true. The order
is searched for by brute force, so histories are short: some dozens of operations a name.

Other servers see a change within a second, so a GET may be as old as that: its `start` is moved
back. What its own server has answered before is never older: `after`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

UNKNOWN = math.inf
"""End of an operation without a response: it may take effect at any later time, or never."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `value` is None for no task.

    `existed` is what a PUT or DELETE said of the task before it; None: nothing. After a response
    that is no success, `is_sure` is false: it may have taken effect. `after` is the index of an
    operation that this one cannot precede.
    """

    kind: str  # "PUT", "GET" or "DELETE"
    value: float | None
    start: float
    end: float
    existed: bool | None = None
    is_sure: bool = True
    after: int | None = None


State = tuple[float | None, frozenset[int]]
"""The register, and which of the operations under way have taken effect."""


def fault(operations: Sequence[Operation]) -> Operation | None:
    """Return the first operation whose response agrees with no order; None: there is an order."""
    events = sorted(
        (time, is_end, index)
        for index, each in enumerate(operations)
        for time, is_end in ((each.start, False), (each.end, True))
    )
    search = _Search(operations)
    states: set[State] = {(None, frozenset())}
    for time, is_end, index in events:
        if not is_end:
            search.under_way.add(index)
        elif time == UNKNOWN:
            break
        else:
            states = search.after_end(states, index)
            if not states:
                return operations[index]
    return None


class _Search:
    """The operations, and which of them are under way or have ended at a moment."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self.under_way: set[int] = set()
        self._ended: set[int] = set()

    def after_end(self, states: set[State], index: int) -> set[State]:
        """Return the possible states when an operation has ended."""
        found: set[State] = set()
        left = [self._with_reads(state) for state in states]
        while left:
            state = left.pop()
            if state not in found:
                found.add(state)
                left += [self._with_reads(following) for following in self._writes(state)]
        self.under_way.remove(index)
        self._ended.add(index)
        sure = self._operations[index].is_sure
        return {(value, done - {index}) for value, done in found if index in done or not sure}

    def _writes(self, state: State) -> Iterator[State]:
        value, done = state
        for index in self.under_way - done:
            each = self._operations[index]
            if each.kind != "GET" and each.existed in (None, value is not None):
                yield (each.value if each.kind == "PUT" else None), done | {index}

    def _with_reads(self, state: State) -> State:
        """Let all reads of the present value take effect at once: later is never better."""
        value, done = state
        while more := {index for index in self.under_way - done if self._reads(index, value, done)}:
            done |= more
        return value, done

    def _reads(self, index: int, value: float | None, done: frozenset[int]) -> bool:
        each = self._operations[index]
        is_next = each.after is None or each.after in done or each.after in self._ended
        return each.kind == "GET" and each.value == value and is_next
