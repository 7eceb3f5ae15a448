"""The cache of words: bounded, least recently used, counted, thread-safe, right after errors."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from elmo_model.checkpoints import load
from elmo_model.inference.cache import LONGEST_KEY, Lease, Tables, WordCache, _keys
from elmo_model.inference.encoder import Encoder
from elmo_model.network.elmo import ElmoNetwork
from tests.support.golden import SMALL

SENTENCES = [
    ["The", "bank", "by", "the", "river", "."],
    [],
    ["The", "bank", "of", "the", "bank"],
    ["."],
    ["naïve", "東京", "", "The"],
]


class Cache:
    """A cache of two tables that have the number of a word of digits, and its negative."""

    def __init__(self, capacity: int) -> None:
        self.of_words = WordCache(capacity, torch.empty(0, 3), torch.empty(0, 2))
        self.computed: list[list[str]] = []

    def look_up(self, words: Sequence[str]) -> list[float]:
        """Return the numbers of some words."""
        return numbers_of(self.lease(words))

    def lease(self, words: Sequence[str]) -> Lease:
        """Look some words up; `computed` has those that were missing."""

        def compute(places: Sequence[int]) -> Tables:
            self.computed.append([words[place] for place in places])
            numbers = torch.tensor([[float(words[place])] for place in places])
            return numbers.repeat(1, 3), -numbers.repeat(1, 2)

        return self.of_words.look_up(words, compute)


def numbers_of(lease: Lease) -> list[float]:
    first, second = (table[torch.from_numpy(lease.rows)] for table in lease.tables)
    assert torch.equal(first[:, :2], -second)
    return first[:, 2].tolist()


def test_only_missing_words_are_computed() -> None:
    cache = Cache(10)
    assert cache.look_up(["1", "2"]) == [1, 2]
    assert cache.look_up(["3", "2", "1", "4"]) == [3, 2, 1, 4]
    assert cache.look_up(["4", "1"]) == [4, 1]
    assert cache.computed == [["1", "2"], ["3", "4"]]
    assert (cache.of_words.hits, cache.of_words.misses, cache.of_words.size) == (4, 4, 4)
    assert cache.of_words.known(["4", "5"]) is None
    assert numbers_of(cast(Lease, cache.of_words.known(["2", "3", "2"]))) == [2, 3, 2]
    assert (cache.of_words.hits, cache.of_words.misses) == (6, 4)


def test_the_least_recently_used_word_is_dropped_first() -> None:
    cache = Cache(3)
    cache.look_up(["1", "2", "3"])
    cache.look_up(["1"])
    cache.look_up(["4"])
    assert cache.look_up(["1", "3", "4"]) == [1, 3, 4]
    assert cache.computed == [["1", "2", "3"], ["4"]]
    cache.look_up(["2"])
    assert cache.computed[-1] == ["2"]
    assert cache.of_words.size == 3


def test_a_full_cache_forgets_a_part_at_once() -> None:
    cache = Cache(320)
    for word in map(str, range(320)):
        cache.look_up([word])
    cache.look_up(["0", "320"])
    assert cache.of_words.size == 320 - 10 + 1
    assert cache.of_words.known(["0", *map(str, range(11, 321))]) is not None


@pytest.mark.parametrize("capacity", [0, 1, 2, 5, 2000])
def test_a_batch_may_have_more_words_than_fit(capacity: int) -> None:
    cache = Cache(capacity)
    cache.look_up(["7", "8"])
    for words in (["8", *map(str, range(10, 1500))], ["1499", "7", "12"]):
        assert cache.look_up(words) == [float(word) for word in words]
        assert cache.of_words.size <= capacity
    assert cache.of_words.hits + cache.of_words.misses == 2 + 1491 + 3


def test_words_in_use_keep_their_rows() -> None:
    cache = Cache(3)
    lease = cache.lease(["1", "2"])
    assert cache.look_up(["3"]) == [3]
    assert cache.look_up(["4"]) == [4]  # without a row: 3 is used by a later call than the lease's
    assert cache.look_up(["5", "6"]) == [5, 6]
    cache.of_words.clear()
    assert numbers_of(lease) == [1, 2]
    del lease
    assert cache.look_up(["5", "6"]) == [5, 6] == cache.look_up(["5", "6"])
    assert cache.computed == [["1", "2"], ["3"], ["4"], ["5", "6"], ["5", "6"]]


def test_words_used_before_the_oldest_lease_lose_their_rows() -> None:
    cache = Cache(3)
    cache.look_up(["1"])
    first, second = cache.lease(["2"]), cache.of_words.known(["2"])
    assert cache.look_up(["3"]) == [3]
    assert cache.look_up(["4"]) == cache.look_up(["4"]) == [4]  # in the row of 1
    del first
    assert cache.look_up(["5"]) == cache.look_up(["5"]) == [5]  # 3 and 4 are newer than `second`
    assert numbers_of(cast(Lease, second)) == [2]
    assert cache.computed == [["1"], ["2"], ["3"], ["4"], ["5"], ["5"]]
    del second
    assert cache.look_up(["6"]) == cache.look_up(["6"]) == [6]
    assert cache.computed[6:] == [["6"]] and cache.of_words.size == 3


def test_a_long_word_is_known_by_a_short_key() -> None:
    cache = Cache(10)
    longest, longer, other = ("1".zfill(LONGEST_KEY + each) for each in (0, 1, 2))
    for _ in range(2):
        assert cache.look_up([longer, longest, other]) == [1, 1, 1]
    assert cache.computed == [[longer, longest, other]]
    assert isinstance(_keys([longer])[0], bytes)  # no word may have the key of another one


def test_clearing_forgets_words_and_keeps_the_counts() -> None:
    cache = Cache(4)
    cache.look_up(["1"])
    cache.of_words.clear()
    assert cache.look_up(["1"]) == [1]
    assert (cache.of_words.hits, cache.of_words.misses, len(cache.computed)) == (0, 2, 2)


def test_threads_share_a_cache() -> None:
    cache = Cache(50)

    def ask(seed: int) -> bool:
        right, generator = True, torch.Generator().manual_seed(seed)
        for _ in range(200):
            numbers = torch.randperm(200, generator=generator)[:20].tolist()
            right &= cache.look_up(list(map(str, numbers))) == numbers
        return right

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))
    assert cache.of_words.size <= 50
    assert cache.of_words.hits + cache.of_words.misses == 4 * 200 * 20


class Failing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises an error in place of one of the operations that write a table."""

    def __init__(self, number: int, error: type[BaseException]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left, self._error = number, error

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.ops.aten.index_copy_.default:
            if self._left == 0:
                raise self._error
            self._left -= 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("write", [0, 1])
@pytest.mark.parametrize("error", [torch.OutOfMemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("before", [[], ["1"], ["1", "2", "3"]], ids=["empty", "room", "full"])
def test_words_whose_write_fails_are_computed_again(
    before: list[str], error: type[BaseException], write: int
) -> None:
    cache = Cache(3)
    cache.look_up(before)
    with pytest.raises(error), Failing(write, error):
        cache.look_up(["4", "5"])

    for words in (["4", "5", *before[-1:]], ["6", "5"], ["4", "6", "5"]):
        assert cache.look_up(words) == list(map(float, words))
    assert cache.of_words.size == 3


@pytest.fixture(scope="module")
def elmo() -> ElmoNetwork:
    return load(SMALL)


@pytest.mark.parametrize("write", range(4))  # word vectors, input products in turn, layer 0
@pytest.mark.parametrize("error", [torch.OutOfMemoryError, KeyboardInterrupt])
def test_an_encoder_whose_caches_failed_to_fill_gives_the_same_bits(
    elmo: ElmoNetwork, error: type[BaseException], write: int
) -> None:
    encoder, expected = Encoder.of(elmo), Encoder.of(elmo).embed(SENTENCES)
    with pytest.raises(error), Failing(write, error):
        encoder.embed(SENTENCES)
    for found, layers in zip(encoder.embed(SENTENCES), expected, strict=True):
        assert torch.equal(found, layers)
