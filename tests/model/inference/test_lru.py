"""Which row belongs to which word: bounded, least recently used first."""

from elmo_model.inference.lru import Slots


def test_a_word_keeps_its_row_while_there_are_free_ones() -> None:
    slots = Slots(3)
    rows = [slots.give(word) for word in ("a", "b", "a", "c", "b")]
    assert rows == [0, 1, 0, 2, 1]
    assert len(slots) == 3


def test_the_least_recently_used_word_gives_its_row_away() -> None:
    slots = Slots(2)
    slots.give("a")
    slots.give("b")
    assert slots.find("a") == 0  # a use
    assert slots.give("c") == 1
    assert (slots.find("b"), slots.find("a"), slots.find("c")) == (-1, 0, 1)


def test_looking_for_a_word_that_is_not_there_changes_nothing() -> None:
    slots = Slots(1)
    slots.give("a")
    assert slots.find("b") == -1
    assert (slots.find("a"), len(slots)) == (0, 1)


def test_cleared_slots_are_free() -> None:
    slots = Slots(1)
    slots.give("a")
    slots.clear()
    assert (len(slots), slots.find("a"), slots.give("b")) == (0, -1, 0)
