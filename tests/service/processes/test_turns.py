"""Clients have their turns one after another, whenever they come and whatever they have queued."""

from __future__ import annotations

import random
from collections import Counter

from elmo_serve.processes.turns import Turns


def taken(turns: Turns[str]) -> list[str]:
    found = []
    while (item := turns.next()) is not None:
        found.append(item)
    return found


def test_each_client_has_one_item_a_turn_in_its_own_order() -> None:
    turns = Turns[str]()
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        turns.add(item[0], item)

    assert taken(turns) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert not turns


def test_a_client_that_comes_late_is_next_after_one_that_has_just_had_a_turn() -> None:
    turns = Turns[str]()
    turns.add("a", "a1")
    assert turns.next() == "a1"
    for item in ("a2", "a3", "b1"):
        turns.add(item[0], item)

    assert taken(turns) == ["b1", "a2", "a3"]


def test_items_that_are_put_back_come_first_in_their_order() -> None:
    turns = Turns[str]()
    for item in ("a1", "a2", "b1"):
        turns.add(item[0], item)
    first, second = turns.next(), turns.next()
    assert (first, second) == ("a1", "b1")
    turns.add_first("b", "b1")
    turns.add_first("a", "a1")

    assert taken(turns)[:2] == ["a1", "b1"]


def test_no_client_waits_for_two_turns_of_another() -> None:
    source = random.Random(3)
    turns, waiting = Turns[str](), dict[str, Counter[str]]()
    for step in range(5_000):
        if source.random() < 0.5:
            client = source.choice("abcdef")
            turns.add(client, f"{client}{step}")
            waiting.setdefault(client, Counter())
        elif (item := turns.next()) is not None:
            client = item[0]
            for other, seen in waiting.items():
                if other != client:
                    seen[client] += 1
                    assert seen[client] <= 2, "the turn that was due, and the one after it"
            if client in turns._by_client:
                waiting[client] = Counter()
            else:
                del waiting[client]
