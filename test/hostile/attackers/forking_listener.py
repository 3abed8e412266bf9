"""Listens, and lets one session in: forking_listener.py PATH MODE. `child-holds`: this process says the
hello, and a child inherits the socket. `child-serves`: a child accepts, says the hello, and answers
pings. The child lives until its parent's standard input ends, or for a minute."""
import json
import os
import select
import socket
import struct
import sys
import time

import wire

PING, PONG = 10, 11
path, mode = sys.argv[1], sys.argv[2]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(path)
os.chmod(path, 0o600)
listener.listen(1)


def let_in():
    sock, _ = listener.accept()
    assert len(wire.receive(sock, 64)) == 64
    sock.sendall(wire.hello() + wire.answer(1))
    assert len(wire.receive(sock, 8)) == 8
    sock.sendall(struct.pack("<IBBHIII", 16, 12, 0, 0, 0, 0, 1))  # clock
    return sock


def answer_pings(sock):
    until = time.monotonic() + 60
    waiting = b""
    while time.monotonic() < until:
        if not select.select([sock], [], [], 0.05)[0]:
            continue
        got = sock.recv(65536)
        if not got:
            return
        waiting += got
        while len(waiting) >= 4 and len(waiting) >= 4 + struct.unpack_from("<I", waiting)[0]:
            size = struct.unpack_from("<I", waiting)[0]
            frame, waiting = waiting[4 : 4 + size], waiting[4 + size :]
            if frame[0] == PING:
                sock.sendall(struct.pack("<I", 12) + bytes([PONG]) + frame[1:])


print(json.dumps({"state": "listening"}), flush=True)
if mode == "child-holds":
    held = let_in()
child = os.fork()
if child == 0:
    if mode == "child-serves":
        held = let_in()
    answer_pings(held)
    os._exit(0)
print(json.dumps({"parent": os.getpid(), "child": child}), flush=True)
sys.stdin.read()
