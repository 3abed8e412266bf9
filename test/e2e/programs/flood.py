# A peer with bad manners: says hello properly, then does what its second argument says.
import os, socket, struct, sys, time

MAGIC = 0x6C616373


def hello(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(path)
    s.sendall(struct.pack("<IHHIIQQ16sIIII", MAGIC, 1, 1, 0, 0, 0, 0, os.urandom(16), 4 << 20, 4096, 8192, 256 << 10))
    data = b""
    while len(data) < 72:
        data += s.recv(72 - len(data))
    s.sendall(struct.pack("<IHH", MAGIC, 1, 1))
    return s


def frame(kind, flags=0, aux=0, slot=0, generation=0, rest=b""):
    body = struct.pack("<BBHII", kind, flags, aux, slot, generation) + rest
    return struct.pack("<I", len(body)) + body


path, what = sys.argv[1], sys.argv[2]
if what == "descriptors":  # 100,000 offered, most refused
    s = hello(path)
    refused = 0
    for _ in range(100_000):
        try:
            socket.send_fds(s, [b"\x00"], [0])
        except OSError as error:
            refused += 1
    print('{"refused": %d}' % refused, flush=True)
elif what == "early-descriptors":  # before anybody looked at us
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(path)
    try:
        socket.send_fds(s, [b"x"], [0])
        print('{"sent": true}', flush=True)
    except OSError as error:
        print('{"refused": "%s"}' % error.strerror, flush=True)
elif what == "half":  # shuts its writing only
    s = hello(path)
    s.shutdown(socket.SHUT_WR)
    data = s.recv(1 << 16)
    while data:
        data = s.recv(1 << 16)
    print('{"ended": true}', flush=True)
elif what == "write-for-ever":  # shuts its reading and goes on writing
    s = hello(path)
    s.shutdown(socket.SHUT_RD)
    until = time.time() + 2
    sent = 0
    try:
        while time.time() < until:
            sent += s.send(frame(10, slot=sent & 0xFFFF))
    except OSError:
        pass
    print('{"sent": %d}' % sent, flush=True)
elif what == "stall":  # asks for 200,000 answers of 10 kB and reads none of them
    s = hello(path)
    s.sendall(frame(1, slot=0, rest=b"Desk.same"))
    s.setblocking(False)
    request = b'"' + b"x" * 10_000 + b'"'
    sent, slot = 0, 0
    until = time.time() + 3
    while time.time() < until and slot < 4096:
        data = frame(2, 3, 1, slot, 1, struct.pack("<IIII", 0, 0xFFFFFFFF, 0, len(request)) + request)
        try:
            at = s.send(data)
            while at < len(data):
                try:
                    at += s.send(data[at:])
                except BlockingIOError:
                    time.sleep(0.005)
                    if time.time() > until:
                        break
            sent += len(data)
            slot += 1
        except BlockingIOError:
            time.sleep(0.005)
        except OSError:
            break
    print('{"sent": %d}' % sent, flush=True)
    time.sleep(0.5)
