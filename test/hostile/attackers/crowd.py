"""One process that takes all of a resource: crowd.py PATH ACT. Prints the amount as JSON, keeps it
until its input ends; `drip` and `stop` also continue meanwhile."""
import json
import resource
import select
import sys
import time

import wire

path, act = sys.argv[1], sys.argv[2]
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
kept = []


def is_told_to_end():
    return bool(select.select([sys.stdin], [], [], 0)[0])


def say(**figures):
    print(json.dumps(figures), flush=True)


def drip():
    """Sends hellos one byte at a time, every 20 ms, and begins anew where one was refused."""
    bytes_of_hello = wire.hello()
    dripping = []
    is_said = False
    while not is_told_to_end():
        while len(dripping) < 1100:
            try:
                dripping.append([wire.connect(path), 0])
            except OSError:
                break
        going_on = []
        for one in dripping:
            sock, at = one
            try:
                sock.setblocking(False)
                if at < len(bytes_of_hello) - 1:
                    sock.send(bytes_of_hello[at : at + 1])
                    one[1] += 1
                    going_on.append(one)
                else:
                    sock.close()
            except OSError:
                sock.close()
        dripping = going_on
        if not is_said:
            say(dripping=len(dripping))
        is_said = True
        time.sleep(0.02)


def stop():
    """Says hello on 72 connections, and stops after each byte on one of them, again and again."""
    said = wire.hello() + wire.answer(1)
    rounds = 0
    while not is_told_to_end():
        stopped = []
        for count in range(len(said)):
            sock = wire.connect(path)
            sock.sendall(said[:count])
            stopped.append(sock)
        rounds += 1
        if rounds == 1:
            say(stopped=len(stopped))
        select.select([sys.stdin], [], [], 1)
        for sock in stopped:
            sock.close()


def take_session():
    sock = wire.connect(path)
    sock.sendall(wire.hello())
    got = wire.receive(sock, 72)
    if len(got) == 72 and got[68:70] == b"\x01\x00":
        sock.sendall(wire.answer(1))
        return sock
    sock.close()
    return None


def sessions():
    """Takes sessions over the socket, until one is refused."""
    while (sock := take_session()) is not None:
        kept.append(sock)
    say(sessions=len(kept))


def rings():
    """Takes sessions over rings, each with memory of the other side, until it declines a ring."""
    fd, _ = wire.memory(0)
    while True:
        sock, outcome = wire.offer(path, fd, 0)
        if outcome != "ring":
            break
        kept.append(sock)
    say(rings=len(kept))


{"drip": drip, "stop": stop, "sessions": sessions, "rings": rings}[act]()
sys.stdin.read()
