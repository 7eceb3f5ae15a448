"""Sending chunks: in order, joined where they are small, cut where they are large."""

from typing import Any

from elmo_serve.http.call import send_chunks


async def test_chunks_are_sent_in_order_joined_or_cut() -> None:
    sizes = [1, 0, 70_000, 3, 65_536, 2, 3_000_000, *[100] * 5_000]
    chunks: list[bytes | memoryview] = [
        bytes([index % 251]) * size for index, size in enumerate(sizes)
    ]
    heads: list[Any] = []
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            heads.append(message["headers"])
        else:
            sent.append(bytes(message["body"]))

    expected = b"".join(chunks)
    await send_chunks(send, [(b"a", b"b")], chunks)

    assert heads == [[(b"a", b"b"), (b"content-length", str(len(expected)).encode())]]
    assert b"".join(sent) == expected
    assert max(map(len, sent)) <= 1 << 20
    assert len(sent) == 4
    assert chunks == []
