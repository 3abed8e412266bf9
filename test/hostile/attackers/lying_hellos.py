"""Hellos of which one bit is another: lying_hellos.py PATH. Each connection whose hello is taken
calls Demo.whoami. Prints the number of connections that were refused, and as whom the others were
served, as JSON."""
import json
import struct
import sys

import wire

path = sys.argv[1]
NAME = b"Demo.whoami"


def frame(header, payload=b""):
    return struct.pack("<I", len(header) + len(payload)) + header + payload


def header(kind, flags, aux, slot, generation, *fields):
    return struct.pack(f"<BBHII{len(fields)}I", kind, flags, aux, slot, generation, *fields)


def peer_of(sock):
    """The first answer's value, or nothing where the session ends without one."""
    got = b""
    while True:
        part = sock.recv(65536)
        if not part:
            return None
        got += part
        start = got.find(b'{"peer"')
        if start == -1:
            continue
        try:
            return json.JSONDecoder().raw_decode(got[start:].decode())[0]["peer"]
        except ValueError:
            continue


def served_as(hello):
    sock = wire.connect(path)
    sock.settimeout(20)
    try:
        sock.sendall(hello)
        theirs = wire.receive(sock, 64)
        if len(theirs) < 64:
            return None
        if struct.unpack_from("<I", theirs, 12)[0] != 0:  # it offers memory, which is declined
            sock.sendall(wire.answer(1))
        if len(wire.receive(sock, 8)) < 8:
            return None
        sock.sendall(wire.answer(1))
        call = header(2, 3, 1, 0, 1, 0, 0xFFFFFFFF, 0, 0, 0, 0)
        sock.sendall(frame(header(12, 0, 0, 0, 0, 0)) + frame(header(1, 0, 0, 0, 0), NAME))
        sock.sendall(frame(call))
        return peer_of(sock)
    except (BrokenPipeError, ConnectionResetError):
        return None
    finally:
        sock.close()


refused = 0
served = []
plain = wire.hello()
for bit in range(8 * len(plain)):
    changed = bytearray(plain)
    changed[bit // 8] ^= 1 << (bit % 8)
    peer = served_as(bytes(changed))
    if peer is None:
        refused += 1
    else:
        served.append(peer)
print(json.dumps({"refused": refused, "served": served}), flush=True)
