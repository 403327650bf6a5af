"""A TCP proxy that cuts connections on request, in front of a server that knows nothing of it."""

import contextlib
import selectors
import socket
import threading


class CuttingProxy:
    """Passes bytes between clients and a port of this machine until connections are cut.

    Attributes
    ----------
    n_cut
        How many connections were cut.
    is_open
        Whether new connections are taken.
    drops
        Text in a request after which its answer is dropped and the connection is cut; for plain
        HTTP alone.
    """

    def __init__(self, port):
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._pairs, self._lock = set(), threading.Lock()
        self.n_cut, self.is_open, self._is_closed = 0, True, False
        self.drops = None
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Break all connections, as when a network fails: both ends see a reset."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            self.n_cut += 1
            for end in pair:
                linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # reset at once
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    end.shutdown(socket.SHUT_RDWR)

    def close(self):
        """End it."""
        self._is_closed = True
        self._listener.close()
        self.cut()

    def _accept(self):
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.is_open:
                client.close()
                continue
            server = socket.create_connection(self._target)
            pair = (client, server)
            with self._lock:
                self._pairs.add(pair)
            threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, client, server):
        other = {client: server, server: client}
        with contextlib.suppress(OSError), selectors.DefaultSelector() as selector:
            for end in other:
                selector.register(end, selectors.EVENT_READ)
            is_dropped = False
            while True:
                for key, _ in selector.select():
                    received = key.fileobj.recv(2**16)
                    if not received or (is_dropped and key.fileobj is server):
                        raise OSError
                    is_dropped |= self.drops is not None and self.drops in received
                    other[key.fileobj].sendall(received)
        with self._lock:
            self._pairs.discard((client, server))
        client.close()
        server.close()
