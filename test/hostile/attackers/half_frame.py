"""Answers pings for a while, then begins a frame and does not finish it: half_frame.py PATH MODE.
`half`: half of it; `drip`: a byte a second."""
import json
import select
import struct
import sys
import time

import wire

PING, PONG = 10, 11
path, mode = sys.argv[1], sys.argv[2]
sock = wire.connect(path)
sock.sendall(wire.hello())
assert len(wire.receive(sock, 72)) == 72
sock.sendall(wire.answer(1))
sock.sendall(struct.pack("<IBBHIII", 16, 12, 0, 0, 0, 0, 1))  # clock
until = time.monotonic() + 2.5
waiting = b""
while time.monotonic() < until:
    if not select.select([sock], [], [], 0.05)[0]:
        continue
    waiting += sock.recv(65536)
    while len(waiting) >= 4 and len(waiting) >= 4 + struct.unpack_from("<I", waiting)[0]:
        size = struct.unpack_from("<I", waiting)[0]
        frame, waiting = waiting[4 : 4 + size], waiting[4 + size :]
        if frame[0] == PING:
            sock.sendall(struct.pack("<I", 12) + bytes([PONG]) + frame[1:])
print(json.dumps({"state": "answered"}), flush=True)
half = struct.pack("<IBBHII", 60_000, 5, 1, 0, 0, 1) + b"x" * 30_000  # headers
if mode == "half":
    sock.sendall(half)
    sock.settimeout(30)
    while sock.recv(65536):
        pass
else:
    for byte in half[:30]:
        try:
            sock.sendall(bytes([byte]))
        except OSError:
            break
        time.sleep(1)
print(json.dumps({"state": "ended"}), flush=True)
