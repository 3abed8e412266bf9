"""Sessions over the socket that send calls in very large writes: flood.py PATH SECONDS SESSIONS
[unread]. Each call is reset at once, and all answers are read, so that only the work counts. With
`unread` the calls are not reset, no answer is read, and a session that is over is replaced. Prints
the number of frames as JSON."""
import json
import select
import struct
import sys
import time

import wire

path, seconds, count = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
reads = "unread" not in sys.argv[4:]
NAME = b"Demo.add"
BODY = b'{"a":1,"b":2}'
ROUND = 1000


def frame(header, payload=b""):
    return struct.pack("<I", len(header) + len(payload)) + header + payload


def header(kind, flags, aux, slot, generation, *fields):
    return struct.pack(f"<BBHII{len(fields)}I", kind, flags, aux, slot, generation, *fields)


def meet():
    sock = wire.connect(path)
    sock.sendall(wire.hello())
    wire.receive(sock, 72)
    sock.sendall(wire.answer(1))
    sock.sendall(frame(header(12, 0, 0, 0, 0, 0)) + frame(header(1, 0, 0, 0, 0), NAME))
    sock.setblocking(False)
    return sock


def flood_of(generation):
    out = bytearray()
    for slot in range(ROUND):
        out += frame(header(2, 3, 1, slot, generation, 0, 0xFFFFFFFF, 0, len(BODY), 0, 0), BODY)
        if reads:
            out += frame(header(7, 1, 1, slot, generation))
    return bytes(out)


def replace(sock):
    del socks[sock]
    sock.close()
    if not reads:
        socks[meet()] = [1, b""]


socks = {meet(): [1, b""] for _ in range(count)}
sent = 0
end = time.monotonic() + seconds
while time.monotonic() < end and socks:
    readable, writable, _ = select.select(list(socks) if reads else [], list(socks), [], 0.1)
    for sock in readable:
        try:
            if not sock.recv(1 << 20):
                replace(sock)
        except OSError:
            replace(sock)
    for sock in writable:
        if sock not in socks:
            continue
        state = socks[sock]
        if not state[1]:
            state[1] = flood_of(state[0])
            state[0] += 1
            sent += (2 if reads else 1) * ROUND
        try:
            state[1] = state[1][sock.send(state[1]) :]
        except BlockingIOError:
            pass
        except OSError:
            replace(sock)
print(json.dumps({"frames": sent, "sessions left": len(socks)}), flush=True)
