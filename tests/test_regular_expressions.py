"""No regular expression of the product takes more than a linear time: they meet foreign bytes."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.regular_expressions import is_slow

ROOT = Path(__file__).parents[1]
METHODS = ("match", "fullmatch", "search", "split", "findall", "finditer", "sub", "subn")
FUNCTIONS = {f"re.{name}" for name in ("compile", *METHODS)}


class Pattern(NamedTuple):
    """A regular expression, where it stands, and a method by which it is applied."""

    where: str
    text: str | bytes
    method: str
    flags: int = 0


@cache
def sources() -> dict[Path, ast.Module]:
    return {
        file: ast.parse(file.read_text(encoding="utf-8"))
        for package in ("model/elmo_model", "service/elmo_serve", "client/elmo_client")
        for file in sorted((ROOT / package).rglob("*.py"))
    }


def patterns() -> Iterator[Pattern]:
    used = methods()
    for file, tree in sources().items():
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called = [node for node in calls if ast.unparse(node.func) in FUNCTIONS]
        if not called:
            continue
        names = ".".join(file.relative_to(ROOT).with_suffix("").parts[1:])
        module = vars(importlib.import_module(names.removesuffix(".__init__")))
        for node in called:
            where = f"{file.relative_to(ROOT)}:{node.lineno}"
            method = ast.unparse(node.func).removeprefix("re.")
            if method != "compile":
                yield Pattern(where, value(node.args[0], module), method)
                continue
            found = value(node, module)
            # Equal, not the same: `re` keeps a few hundred compiled patterns alone.
            name = next(k for k, v in module.items() if isinstance(v, re.Pattern) and v == found)
            for method in sorted(used[name]):
                yield Pattern(where, found.pattern, method, found.flags)


def value(node: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "<pattern>", "eval"), names)


def methods() -> dict[str, set[str]]:
    """Return the methods of `re.Pattern` that are looked up on each name, in any module."""
    found: dict[str, set[str]] = {}
    for tree in sources().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                found.setdefault(ast.unparse(node.value).split(".")[-1], set()).add(node.attr)
    return found


def test_every_pattern_takes_a_linear_time() -> None:
    found = list(patterns())
    slow = [each for each in found if is_slow(each.text, each.method, each.flags)]

    assert len(found) > 20
    assert slow == []


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        ("(a+)+", "fullmatch"),
        ("(a|ab?)*", "fullmatch"),
        ("(a*)*b", "match"),
        ("a*a*", "fullmatch"),
        ("a*[ab]?a*b", "match"),
        (r"\s*x", "search"),
        (r"(?m)^\s*x", "search"),
        (r"a(?=\w*\w*b)", "match"),
        (r"[A-Z]*\w*-", "match"),
        (r"(?i)[A-Z]*k*-", "match"),
        (rb"(?:[a-z]+:[ \t]?[!-~]?[ -~]*\r\n)+\r\n", "match"),
    ],
)
def test_a_slow_pattern_is_found(pattern: str | bytes, method: str) -> None:
    assert is_slow(pattern, method)


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        ("a*b*", "fullmatch"),
        ("(ab*)*", "fullmatch"),
        ("a*a*", "match"),  # it cannot fail
        (r"\s+", "search"),
        (r"^\s*x", "search"),
        (r"(?m)^[ \t]*x", "search"),
        ("[0-9]+([.][0-9]*)?([eE][+-]?[0-9]+)?", "fullmatch"),
        ("[a-z]{1,64}:[ -~]{0,256}", "fullmatch"),
        ("[a-c]{3}[b-d]{2}e", "match"),
        (rb"(?:[a-z]+:\t?[ -~]*\r\n)+\r\n", "match"),
    ],
)
def test_other_patterns_are_not(pattern: str | bytes, method: str) -> None:
    assert not is_slow(pattern, method)
