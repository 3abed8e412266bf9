"""Connects, and forks a child that inherits its socket: forking.py PATH LANE. The child lives for a
minute, also after its parent has ended."""
import json
import os
import sys
import time

import wire

path, lane = sys.argv[1], sys.argv[2]
if lane == "ring":
    fd, _ = wire.memory(0)
    sock, outcome = wire.offer(path, fd, 0)
    assert outcome == "ring", outcome
else:
    sock = wire.connect(path)
    sock.sendall(wire.hello())
    assert len(wire.receive(sock, 72)) == 72
    sock.sendall(wire.answer(1))
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
print(json.dumps({"parent": os.getpid(), "child": child}), flush=True)
sys.stdin.read()
