"""FUSE files whose close hangs, since their daemon does not answer: closing.py PATH SENDERS. Each
sender is a process. Prints the outcomes, then waits for its input to end, which ends all closes."""
import ctypes
import json
import os
import struct
import sys
import tempfile
import threading

import wire

path, senders = sys.argv[1], int(sys.argv[2])
LOOKUP, GETATTR, OPEN, FLUSH, INIT = 1, 3, 14, 25, 26
ROOT, FILE = 1, 2
libc = ctypes.CDLL(None, use_errno=True)


def attributes(node):
    mode = 0o40755 if node == ROOT else 0o100644
    return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answers(opcode, node):
    if opcode == INIT:
        return struct.pack("<4IHHIIHH8I", 7, 31, 0, 0, 8, 8, 65536, 1, 1, 0, *[0] * 8)
    if opcode == LOOKUP:
        return struct.pack("<4QII", FILE, 0, 60, 60, 0, 0) + attributes(FILE)
    if opcode == GETATTR:
        return struct.pack("<QII", 60, 0, 0) + attributes(node)
    if opcode == OPEN:
        return struct.pack("<QII", 1, 0, 0)
    return None


def serve(device):
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError:
            return
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode == FLUSH:
            continue  # without an answer the close hangs
        body = answers(opcode, node)
        error = 0 if body is not None else -38
        body = body or b""
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def send(name, report):
    file = os.open(name, os.O_RDONLY)
    outcomes = {}
    for _ in range(6):
        sock = wire.connect(path)
        sock.sendall(wire.hello(wire.FOLLOWS, wire.RING, 0))
        theirs = wire.receive(sock, 64)
        if len(theirs) < 64:
            outcome = "closed"
        elif struct.unpack_from("<I", theirs, 12)[0] == 0:
            outcome = "no memory asked for"
        else:
            try:
                wire.send_with(sock, wire.answer(0), [file])
                outcome = "sent"
            except OSError:
                outcome = "refused"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        sock.close()
        # Longer than the victim needs to find that a close hangs.
        threading.Event().wait(0.7)
    os.write(report, (json.dumps(outcomes) + "\n").encode())
    os._exit(0)  # hangs, too: it closes this process's descriptor


CLONE_NEWNS, MS_PRIVATE, MS_REC = 0x20000, 1 << 18, 1 << 14
# A mount namespace of this process, so that its mount ends with it.
if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, MS_PRIVATE | MS_REC, None) != 0:
    raise OSError(ctypes.get_errno(), "unshare")
device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
place = tempfile.mkdtemp(prefix="closing-")
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
if libc.mount(b"closing", place.encode(), b"fuse", 0, options) != 0:
    raise OSError(ctypes.get_errno(), "mount")
threading.Thread(target=serve, args=(device,), daemon=True).start()
os.stat(f"{place}/file")
read_end, write_end = os.pipe()
for _ in range(senders):
    if os.fork() == 0:
        os.close(read_end)
        os.close(device)
        send(f"{place}/file", write_end)
os.close(write_end)
lines = os.fdopen(read_end)
reports = [json.loads(lines.readline()) for _ in range(senders)]  # sent before the senders hang
total = {}
for outcomes in reports:
    for outcome, count in outcomes.items():
        total[outcome] = total.get(outcome, 0) + count
print(json.dumps(total), flush=True)
sys.stdin.read()
libc.umount2(place.encode(), 2)
os.rmdir(place)
os._exit(0)
