"""LRU: which row belongs to which word; the least recently used word loses its row."""

from elmo_model.inference.lru import LRU


def test_a_word_keeps_its_row_while_rows_are_free() -> None:
    lru = LRU(3)
    rows = [lru.assign(word) for word in ("a", "b", "a", "c", "b")]
    assert rows == [0, 1, 0, 2, 1]
    assert len(lru) == 3


def test_a_new_word_gets_the_row_of_the_least_recently_used_word() -> None:
    lru = LRU(2)
    lru.assign("a")
    lru.assign("b")
    assert lru.find("a") == 0  # a use
    assert lru.assign("c") == 1
    assert (lru.find("b"), lru.find("a"), lru.find("c")) == (-1, 0, 1)


def test_finding_an_unknown_word_changes_nothing() -> None:
    lru = LRU(1)
    lru.assign("a")
    assert lru.find("b") == -1
    assert (lru.find("a"), len(lru)) == (0, 1)


def test_clearing_frees_every_row() -> None:
    lru = LRU(1)
    lru.assign("a")
    lru.clear()
    assert (len(lru), lru.find("a"), lru.assign("b")) == (0, -1, 0)
