# A helper that is not Node: what docs/protocol.md asks of a child, and not a line more.
# It says hello over the inherited descriptor and answers every call with its environment.
import json, os, socket, struct, subprocess, sys

MAGIC = 0x6C616373
fd = int(os.environ.pop("SIDECALL_FD"))
parent = os.environ.pop("SIDECALL_PARENT", None)
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)
s.setblocking(True)


def exactly(count):
    data = b""
    while len(data) < count:
        piece = s.recv(count - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


hello = struct.pack("<IHHIIQQ16sIIII", MAGIC, 1, 1, 0, 0, 0, 0, os.urandom(16), 4 << 20, 4096, 8192, 256 << 10)
s.sendall(hello)
assert struct.unpack_from("<IHH", exactly(64))[0] == MAGIC
magic, verdict, version = struct.unpack("<IHH", exactly(8))
assert (magic, verdict, version) == (MAGIC, 1, 1)
s.sendall(struct.pack("<IHH", MAGIC, 1, 1))

if len(sys.argv) > 1:  # a grandchild that keeps our end of the pair open
    os.set_inheritable(fd, True)
    grandchild = subprocess.Popen(["sleep", "60"], close_fds=False)

names = []
while True:
    (length,) = struct.unpack("<I", exactly(4))
    frame = exactly(length)
    kind, flags, aux, slot, generation = struct.unpack_from("<BBHII", frame)
    if kind == 1:  # method
        names.append(frame[12:].decode())
    elif kind == 2:  # open
        method = struct.unpack_from("<I", frame, 12)[0]
        answer = {"method": names[method], "request": json.loads(frame[28:]), "parent": parent, "pid": os.getpid()}
        if len(sys.argv) > 1:
            answer["grandchild"] = grandchild.pid
        body = json.dumps(answer).encode()
        s.sendall(struct.pack("<IBBHIII", 16 + len(body), 3, 2, 0, slot, generation, len(body)) + body)
    elif kind == 9 and flags == 0:  # goaway: answer it, then wait for the end
        s.sendall(struct.pack("<IBBHII", 12, 9, 2, 0, 0, 0))
