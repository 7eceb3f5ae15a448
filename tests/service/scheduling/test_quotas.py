"""What each client has of the queue."""

from elmo_serve.scheduling.quotas import Shares


def test_a_client_is_over_its_share_by_what_does_not_fit() -> None:
    shares = Shares(10)
    shares.take("a", 7)
    assert (shares.excess("a", 3), shares.excess("a", 5), shares.excess("b", 10)) == (0, 2, 0)
    shares.give_back("a", 7)
    assert (shares.excess("a", 10), shares.held("a")) == (0, 0)


def test_without_a_limit_nobody_is_over_it() -> None:
    shares = Shares(None)
    shares.take("a", 1_000_000)
    assert shares.excess("a", 1_000_000) == 0
