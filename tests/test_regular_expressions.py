"""No regular expression of the product takes more than a linear time: they meet foreign bytes."""

import ast
import importlib
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import from_regex

ROOT = Path(__file__).parents[1]
METHODS = ("match", "fullmatch", "search", "split", "findall", "finditer", "sub", "subn")
SOURCES = [
    file
    for package in ("model/elmo_model", "service/elmo_serve", "client/elmo_client")
    for file in sorted((ROOT / package).rglob("*.py"))
]

LENGTH = 100_000
"""Characters of a text: a linear match takes milliseconds, a quadratic one some seconds."""
SECONDS = 1.0
"""Processor time that the match of one text may take."""

CHILD = """
import pickle, signal, sys
for where, pattern, method, length, seconds, parts in pickle.load(sys.stdin.buffer):
    print(where, pattern.pattern, method, flush=True)
    run = getattr(pattern, method)
    more = ("",) if method.startswith("sub") else ()
    for head, body, tail in parts:
        text = head + body * (length // len(body)) + tail
        signal.setitimer(signal.ITIMER_PROF, seconds)  # ends this process
        list(run(text)) if method == "finditer" else run(*more, text)
        signal.setitimer(signal.ITIMER_PROF, 0)
print("done")
"""


class Used(NamedTuple):
    """A regular expression, where it stands, and a method by which it is applied."""

    where: str
    pattern: re.Pattern[str]
    method: str


def patterns() -> Iterator[Used]:
    """Find the compiled patterns of modules, and the patterns that functions of `re` are given."""
    every = "\n".join(file.read_text(encoding="utf-8") for file in SOURCES)
    for file in SOURCES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        called = {f"re.{name}" for name in METHODS}
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"re.compile", *called}
        ]
        if not calls:
            continue
        place = file.relative_to(ROOT).with_suffix("").parts[1:]
        module = vars(importlib.import_module(".".join(place).removesuffix(".__init__")))
        names = [name for name, value in module.items() if isinstance(value, re.Pattern)]
        for name in names:
            for method in set(re.findall(rf"\b{name}\.({'|'.join(METHODS)})\b", every)):
                yield Used(f"{file.name}: {name}", module[name], method)
        for node in calls:
            if ast.unparse(node.func) in called:
                text = eval(compile(ast.Expression(node.args[0]), "<pattern>", "eval"), module)
                where = f"{file.name}:{node.lineno}"
                yield Used(where, re.compile(text), ast.unparse(node.func).removeprefix("re."))


def hostile(pattern: re.Pattern[str]) -> list[tuple[str, str, str]]:
    """Return heads, bodies and tails: bodies are repeated.

    They are the characters of the pattern itself, and short texts that it matches with one or two
    of their characters repeated. A match may fail at the end, or at a character of no pattern.
    """
    found = {("", body, tail) for body in {*pattern.pattern, *" aZ0"} for tail in ("", "\0")}

    @settings(derandomize=True, database=None, max_examples=6)
    @given(from_regex(pattern))
    def pump(text: str) -> None:
        text = text[:10]
        for start in range(len(text)):
            for end in range(start + 1, min(start + 3, len(text) + 1)):
                head, body, tail = text[:start], text[start:end], text[end:]
                found.update((head, body, each) for each in (tail, "", "\0"))

    with suppress(Unsatisfiable):  # of a pattern that matches no character
        pump()
    return sorted(found)


def slow(every: list[Used]) -> str | None:
    """Return the first pattern that takes longer than `SECONDS` for a text; None without one."""
    jobs = [(*each, LENGTH, SECONDS, hostile(each.pattern)) for each in every]
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, input=pickle.dumps(jobs), capture_output=True, check=False)
    last = done.stdout.decode().splitlines()[-1]
    return None if last == "done" else last


def test_every_pattern_takes_a_linear_time() -> None:
    found = list(patterns())

    assert len(found) > 20
    assert slow(found) is None


@pytest.mark.parametrize(
    ("pattern", "method"),
    [(r"(a+)+", "fullmatch"), (r"# +[^=]* +=", "match")],
)
def test_a_slow_pattern_is_found(pattern: str, method: str) -> None:
    assert slow([Used("planted", re.compile(pattern), method)]) == f"planted {pattern} {method}"
