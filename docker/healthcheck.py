"""Exit with 0 when the server in this container is ready, else with 1 and the reason on stdout."""

import os
import socket
import sys

PORT = int(os.environ.get("ELMO_PORT") or 8000)
HOST = os.environ.get("ELMO_HOST") or "127.0.0.1"
HOSTS = ["127.0.0.1", "::1"] if HOST in ("0.0.0.0", "::") else [HOST]
SECONDS = 4


def main() -> int:
    # A plain socket: importing http.client costs more processor time than the request itself.
    answer = b""
    for host in HOSTS:
        try:
            answer = ask(host)
            break
        except OSError as error:
            print(f"{host}: {error}")
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    print(body.decode("utf-8", "replace")[:400])
    return 0 if status[1:2] == [b"200"] else 1


def ask(host: str) -> bytes:
    with socket.create_connection((host, PORT), timeout=SECONDS) as connection:
        connection.sendall(b"GET /health/ready HTTP/1.0\r\nHost: localhost\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(65_536), b""))


if __name__ == "__main__":
    sys.exit(main())
