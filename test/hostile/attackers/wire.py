"""The part of docs/protocol.md that all attackers use: the hello, and sending descriptors."""
import ctypes
import fcntl
import mmap
import os
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]

MAGIC = 0x6C616373
PAGE = 16 * 1024
RING = 1024 * 1024
SEALS = 0x17
ADD_SEALS = 1033
KEEP_SIZE = 1
FOLLOWS = 2  # the descriptor comes with our answer
RING_VERDICT = 0


def connect(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(path)
    return sock


def hello(flags=0, capacity=0, area=0, nonce=b"n" * 16):
    limits = struct.pack("<4I", 4194304, 4096, 8192, 262144)
    return struct.pack("<IHHIIQQ", MAGIC, 1, 1, 1, flags, capacity, area) + nonce + limits


def answer(verdict):
    return struct.pack("<IHH", MAGIC, verdict, 1)


def send_with(sock, data, descriptors):
    rights = struct.pack(f"{len(descriptors)}i", *descriptors)
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def receive(sock, count):
    """Returns `count` bytes, or fewer where the other side has ended. Closes descriptors."""
    got = b""
    while len(got) < count:
        part, control, _, _ = sock.recvmsg(count - len(got), socket.CMSG_SPACE(4 * 4))
        for _, _, data in control:
            for descriptor in struct.unpack(f"{len(data) // 4}i", data):
                os.close(descriptor)
        if not part:
            break
        got += part
    return got


def memory(area, nonce=b"n" * 16, beyond=0):
    """Makes a valid outbox, fully allocated; `beyond`: bytes of blocks beyond its end."""
    total = PAGE + RING + area
    fd = os.memfd_create("outbox", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, total)
    os.posix_fallocate(fd, 0, total)
    if beyond and libc.fallocate(fd, KEEP_SIZE, total, beyond) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")
    with mmap.mmap(fd, PAGE) as page:
        page[0:24] = struct.pack("<IIQQ", MAGIC, 1, RING, area)
        page[24:40] = nonce
    fcntl.fcntl(fd, ADD_SEALS, SEALS)
    return fd, total


def offer(path, fd, area):
    """Offers memory to a listener. Returns the socket and the answer to the memory."""
    sock = connect(path)
    sock.sendall(hello(FOLLOWS, RING, area))
    theirs = receive(sock, 64)
    if len(theirs) < 64:
        return sock, "closed"
    if struct.unpack_from("<I", theirs, 12)[0] == 0:  # it offers no memory: its answer follows
        receive(sock, 8)
        sock.sendall(answer(1))
        return sock, "socket lane"
    send_with(sock, answer(RING_VERDICT), [fd])
    verdict = receive(sock, 8)
    if len(verdict) < 8:
        return sock, "closed"
    return sock, "ring" if struct.unpack_from("<H", verdict, 4)[0] == 0 else "socket lane"
