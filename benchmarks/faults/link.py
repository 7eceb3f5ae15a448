"""A TCP proxy before one server, whose directions can stall and whose connections can break.

link = Link(port)
link.stall("to server", True)
link.cut()
"""

import contextlib
import socket
import threading

DIRECTIONS = ("to server", "to client")

_PIECE = 1 << 18  # bytes read at once


class Link:
    """Listens on `port` and forwards to `target`, with two threads for each connection."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._sockets: set[socket.socket] = set()
        self._flows = {direction: threading.Event() for direction in DIRECTIONS}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
        self.port: int = self._listener.getsockname()[1]
        for direction in DIRECTIONS:
            self.stall(direction, False)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Listen no more, and break all connections."""
        self._listener.shutdown(socket.SHUT_RDWR)  # close alone would not end `accept`
        self._listener.close()
        self.cut()

    def stall(self, direction: str, is_stalled: bool) -> None:
        """Forward nothing in a direction, or go on."""
        flow = self._flows[direction]
        (flow.clear if is_stalled else flow.set)()

    def cut(self) -> None:
        """Break all connections."""
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(near,), daemon=True).start()

    def _forward(self, near: socket.socket) -> None:
        address = ("127.0.0.1", self._target)
        with contextlib.suppress(OSError), near, socket.create_connection(address) as far:
            self._sockets |= {near, far}
            back = threading.Thread(target=self._pump, args=(far, near, "to client"))
            back.start()
            self._pump(near, far, "to server")
            back.join()
            self._sockets -= {near, far}

    def _pump(self, source: socket.socket, target: socket.socket, direction: str) -> None:
        """Forward one direction to its end, and then close that direction alone."""
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                self._flows[direction].wait()
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
