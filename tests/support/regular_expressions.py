"""Regular expressions whose time can grow faster than the text, found from their parse trees.

A backtracking matcher is slow where two paths read the same text: where a position p of the pattern
returns to itself on some text, also leads to another position q on it, and q returns to itself on
it as well. n repeats of that text have n paths at least, and all are tried when the match fails
(Weideman et al., Analyzing Matching Time Behavior of Backtracking Regular Expression Matchers).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

# Python has no public parser of patterns; these two modules are the same from 3.11 to 3.14.
from re import _compiler, _parser  # type: ignore[attr-defined]
from typing import Any, Final

_CHARACTERS: Final = [
    *map(chr, range(256)),
    *"\u0130\u0661\u1e9e\u2019\u201d\u212a\u3000\U0001f600",
]
"""Every byte, and characters that stand for the rest of Unicode."""

_LONG_REPEAT: Final = 4
"""A repeat that may be longer counts as one without a bound."""

_NOTHING: Final = 0
_ANYTHING: Final = (1 << len(_CHARACTERS)) - 1


def is_slow(pattern: str | bytes, method: str, flags: int = 0) -> bool:
    """Tell whether a method of `re.Pattern` can take more than a linear time."""
    automaton = _Automaton(pattern, method, flags)
    positions = range(len(automaton.follow))
    reached = [automaton.reached(p) for p in positions]
    loops = [p for p in positions if p in reached[p]]
    twice = any(
        len(automaton.follow[p]) > len(set(automaton.follow[p]))
        for p in loops
        if p not in automaton.ends
    )
    return twice or any(
        automaton.has_two_paths(p, q)
        for p, q in product(loops, loops)
        if p != q and q in reached[p] and q not in automaton.ends
    )


@dataclass(slots=True)
class _Part:
    """The positions with which a part of a pattern can begin and end; as often as there are ways.

    `empty` is the number of ways in which it matches nothing.
    """

    first: list[int]
    last: list[int]
    empty: int


class _Automaton:
    """The positions of a pattern, one for each character class that stands in it (Glushkov).

    `follow` are the positions that can come next. A match cannot fail any more at one of `ends`.
    """

    def __init__(self, pattern: str | bytes, method: str, flags: int) -> None:
        self.follow: list[list[int]] = []
        self._characters: list[int] = []  # that a position matches, one bit each
        tree = _parser.parse(pattern, flags)
        self._state = tree.state
        whole = self._sequence(tree)
        is_anchored = str(tree[0][1]) == "AT_BEGINNING"
        is_of_lines = bool(tree.state.flags & re.MULTILINE)
        if method not in ("match", "fullmatch") and (is_of_lines or not is_anchored):
            anywhere = self._position(_ANYTHING)
            start = self._position(_bit("\n")) if is_anchored else anywhere
            self._connect([anywhere], [anywhere, start][: 1 + is_anchored])
            self._connect([start], whole.first)
        self.ends = frozenset(whole.last if method != "fullmatch" else ())

    def reached(self, start: int) -> set[int]:
        """Return the positions that can come after another one."""
        found: set[int] = set()
        todo = [start]
        while todo:
            new = set(self.follow[todo.pop()]) - found
            found |= new
            todo += new
        return found

    def has_two_paths(self, p: int, q: int) -> bool:
        """Tell whether one text leads from p to p, from p to q and from q to q."""
        seen: set[tuple[int, ...]] = set()
        todo: list[tuple[int, ...]] = [(p, p, q)]
        while todo:
            for each in product(*(self.follow[position] for position in todo.pop())):
                x, y, z = (self._characters[position] for position in each)
                if x & y & z and each not in seen:
                    seen.add(each)
                    todo.append(each)
        return (p, q, q) in seen

    def _position(self, characters: int) -> int:
        self._characters.append(characters)
        self.follow.append([])
        return len(self.follow) - 1

    def _one(self, characters: int) -> _Part:
        position = self._position(characters)
        return _Part([position], [position], 0)

    def _connect(self, last: list[int], first: list[int]) -> None:
        for position in last:
            self.follow[position] += first

    def _sequence(self, nodes: Any) -> _Part:
        return self._joined([self._part(str(kind), value) for kind, value in nodes])

    def _joined(self, parts: list[_Part]) -> _Part:
        whole = _Part([], [], 1)
        for part in parts:
            self._connect(whole.last, part.first)
            whole.first += part.first * whole.empty
            whole.last = part.last + whole.last * part.empty
            whole.empty *= part.empty
        return whole

    def _part(self, kind: str, value: Any) -> _Part:
        match kind:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._one(self._matched(kind, value))
            case "SUBPATTERN":
                return self._sequence(value[-1])
            case "BRANCH":
                return _either([self._sequence(each) for each in value[1]])
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeat(*value)
            case "AT":
                is_end = str(value) in ("AT_END", "AT_END_STRING")
                return self._one(_NOTHING) if is_end else _Part([], [], 1)
            case "ASSERT" | "ASSERT_NOT":  # what it has read is read again
                ahead = self._joined([self._sequence(value[1]), self._one(_NOTHING)])
                return _Part(ahead.first, [], 1)
        raise NotImplementedError(kind)

    def _repeat(self, least: int, most: int, nodes: Any) -> _Part:
        if most <= _LONG_REPEAT:
            parts = [self._sequence(nodes) for _ in range(most)]
            for part in parts[least:]:
                part.empty += 1
            return self._joined(parts)
        parts = [self._sequence(nodes) for _ in range(min(max(least, 1), _LONG_REPEAT))]
        self._connect(parts[-1].last, parts[-1].first)
        parts[-1].empty += not least
        return self._joined(parts)

    def _matched(self, kind: str, value: Any) -> int:
        node = (getattr(_parser, kind), value)
        one = _compiler.compile(_parser.SubPattern(self._state, [node]))
        return sum(1 << n for n, each in enumerate(_CHARACTERS) if one.fullmatch(each))


def _either(parts: list[_Part]) -> _Part:
    return _Part(
        [position for part in parts for position in part.first],
        [position for part in parts for position in part.last],
        sum(part.empty for part in parts),
    )


def _bit(character: str) -> int:
    return 1 << _CHARACTERS.index(character)
