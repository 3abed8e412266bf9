"""Memory and descriptors with slow operations: memory.py PATH ACT SECONDS. Prints the outcomes of
its offers as JSON, and the longest time in ms that the attacker needs for such an operation."""
import json
import os
import socket
import struct
import sys
import threading
import time

import wire

path, act, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
end = time.monotonic() + seconds
outcomes = {}


def begin():
    """Begins the time of the attack anew, since a busy machine takes seconds for the memory."""
    global end
    end = time.monotonic() + seconds


own_ms = 0.0


def measured(work):
    global own_ms
    begun = time.monotonic()
    result = work()
    own_ms = max(own_ms, 1000 * (time.monotonic() - begun))
    return result


def count(outcome):
    outcomes[outcome] = outcomes.get(outcome, 0) + 1


def hold_the_lock():
    """Sixteen threads allocate in the offered object without pause, to hold its lock."""
    area = 256 * 1024 * 1024
    fd, total = wire.memory(area)

    def hold():
        while time.monotonic() < end:
            wire.libc.fallocate(fd, 0, 0, total)

    begin()
    threads = [threading.Thread(target=hold, daemon=True) for _ in range(16)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    while time.monotonic() < end:
        try:
            sock, outcome = wire.offer(path, fd, area)
        except OSError:  # no listener any more; the lock is still held
            time.sleep(0.01)
            continue
        count(outcome)
        sock.close()


def offer_again():
    """Offers the same gibibyte of memory repeatedly."""
    area = 1024 * 1024 * 1024
    fd, total = wire.memory(area)
    measured(lambda: [wire.libc.fallocate(fd, 0, at, 262144) for at in range(0, total, 262144)])
    begin()
    while time.monotonic() < end:
        sock, outcome = wire.offer(path, fd, area)
        count(outcome)
        sock.close()


def blocks_beyond():
    """Offers memory with a gibibyte of blocks beyond its end."""
    fd, _ = wire.memory(0, beyond=1024 * 1024 * 1024)
    begin()
    while time.monotonic() < end:
        sock, outcome = wire.offer(path, fd, 0)
        count(outcome)
        sock.close()


def beyond_and_gone():
    """As blocks_beyond(), with new memory each time, so that the other side's close frees it."""
    beyond = 2 * 1024 * 1024 * 1024
    fd, _ = wire.memory(0, beyond=beyond)
    measured(lambda: os.close(fd))
    begin()
    while time.monotonic() < end:
        fd, _ = wire.memory(0, beyond=beyond)
        sock = wire.connect(path)
        sock.sendall(wire.hello(wire.FOLLOWS, wire.RING, 0))
        wire.receive(sock, 64)
        wire.send_with(sock, wire.answer(0), [fd])
        os.close(fd)
        count("sent" if len(wire.receive(sock, 8)) == 8 else "closed")
        sock.close()


def hello_alone():
    """Sends only a hello of 64 bytes, for which the other side allocates memory."""
    fd, _ = measured(lambda: wire.memory(256 * 1024 * 1024))
    os.close(fd)
    begin()
    while time.monotonic() < end:
        sock = wire.connect(path)
        sock.sendall(wire.hello(wire.FOLLOWS, wire.RING, 0))
        count("answered" if len(wire.receive(sock, 64)) == 64 else "closed")
        sock.close()


def lingering():
    """Sends TCP sockets whose close lingers, since their peer does not read."""
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    kept = []

    def lingers():
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
        near.setblocking(False)
        try:
            while True:
                near.send(b"x" * 65536)
        except BlockingIOError:
            pass
        kept.append(far)
        return near

    while time.monotonic() < end:
        sock = wire.connect(path)
        sock.sendall(wire.hello(wire.FOLLOWS, wire.RING, 0))
        theirs = wire.receive(sock, 64)
        if len(theirs) < 64:
            count("closed")
        elif struct.unpack_from("<I", theirs, 12)[0] == 0:
            count("no memory asked for")
        else:
            near = lingers()
            try:
                wire.send_with(sock, wire.answer(0), [near.fileno()])
                count("sent")
            except OSError:
                count("refused")
            near.close()
        sock.close()
        time.sleep(0.005)


acts = {
    "hold-the-lock": hold_the_lock,
    "offer-again": offer_again,
    "blocks-beyond": blocks_beyond,
    "beyond-and-gone": beyond_and_gone,
    "hello-alone": hello_alone,
    "lingering": lingering,
}
acts[act]()
print(json.dumps({"outcomes": outcomes, "ownMs": own_ms}), flush=True)
os._exit(0)
