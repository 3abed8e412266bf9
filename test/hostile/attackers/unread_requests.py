"""A session over the socket that reads no answer: unread_requests.py PATH SHORT LONG BYTES. Sends
SHORT calls of one byte, which fill the lane with their answers, then LONG calls of BYTES. Prints
the number of calls that were sent as JSON, and keeps the session until its input ends."""
import json
import struct
import sys

import wire

path, short, long, size = sys.argv[1], *(int(arg) for arg in sys.argv[2:5])
NAME = b"Store.length"
PIECE = 64 * 1024
SLOTS = 1024


def frame(header, payload=b""):
    return struct.pack("<I", len(header) + len(payload)) + header + payload


def header(kind, flags, aux, slot, generation, *fields):
    return struct.pack(f"<BBHII{len(fields)}I", kind, flags, aux, slot, generation, *fields)


def call(number, bytes_):
    slot, generation = number % SLOTS, number // SLOTS + 1
    body = bytes(min(bytes_, PIECE))
    fields = (0, 0xFFFFFFFF, 0, bytes_, 0, 0)
    out = frame(header(2, 3, 1, slot, generation, *fields), body)
    for at in range(PIECE, bytes_, PIECE):
        out += frame(header(4, 1, 0, slot, generation), bytes(min(PIECE, bytes_ - at)))
    return out


sock = wire.connect(path)
sock.sendall(wire.hello())
wire.receive(sock, 72)
sock.sendall(wire.answer(1))
sock.sendall(frame(header(12, 0, 0, 0, 0, 0)) + frame(header(1, 0, 0, 0, 0), NAME))
sock.settimeout(10)
sent = 0
ended = ""
try:
    for number in range(short + long):
        sock.sendall(call(number, 1 if number < short else size))
        sent += 1
except OSError as error:
    ended = type(error).__name__
print(json.dumps({"sent": sent, "ended": ended}), flush=True)
sys.stdin.read()
