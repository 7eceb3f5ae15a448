"""The remote ElmoEmbedder, where it differs from that of elmo-serve: see its tests."""

from __future__ import annotations

import socket

import pytest

from elmo_client import CannotSend, ElmoEmbedder, Unreachable, retry


def test_a_path_is_no_server() -> None:
    with pytest.raises(CannotSend, match=r"'options\.json'"):
        ElmoEmbedder("options.json")


def test_a_dead_address_fails_at_once_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_CONTACT_SECONDS", 0.3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

    with pytest.raises(Unreachable, match=rf"^{url}: .*attempts in "):
        ElmoEmbedder(url)
