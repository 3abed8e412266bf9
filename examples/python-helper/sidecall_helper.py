"""A helper in plain Python, written from docs/protocol.md: the socket lane, JSON, unary calls,
notifications, and server streams. `serve()` takes the functions; a generator is a stream."""
import collections
import ctypes
import inspect
import json
import os
import select
import signal
import socket
import struct
import time

MAGIC = 0x6C616373
STREAMS_MAX, METADATA_MAX, MESSAGE_MAX, WINDOW = 64, 8192, 4 << 20, 256 << 10
METHOD, OPEN, MESSAGE, FRAGMENT, HEADERS, END, RESET, CREDIT, GOAWAY, PING, PONG, CLOCK = range(1, 13)
HEADER_BYTES = {METHOD: 12, OPEN: 36, MESSAGE: 16, FRAGMENT: 12, HEADERS: 12, END: 20}
HEADER_BYTES.update({RESET: 12, CREDIT: 16, GOAWAY: 12, PING: 12, PONG: 12, CLOCK: 16})
FROM_OPENER, LAST, OF_STREAM, BEYOND = 1, 2, 4, 8
UNARY, NOTIFICATION, SERVER_STREAM = 1, 2, 3
REQUESTS, ANSWERS, STREAMS, NOTIFICATIONS = 0, 1, 2, 3
CANCELLED, DEADLINE = 1, 2
PIECE = 64 << 10
OVERHEAD = 64  # charge of a message beside its bytes


class ProtocolError(Exception):
    """The other side has broken a rule of docs/protocol.md."""


class Call:
    def __init__(self, name, kind, deadline, window, length, piece):
        self.name, self.kind, self.deadline, self.credit = name, kind, deadline, window
        self.length, self.request, self.answers = length, bytearray(piece), None


class Session:
    def __init__(self, sock, functions):
        self.sock, self.functions = sock, functions
        self.names, self.calls, self.generations = [], {}, {}
        self.credit = [0, 0, 0, 0]
        self.waiting = collections.deque()  # answers without credit
        self.is_leaving = False

    def meet(self):
        limits = struct.pack("<4I", MESSAGE_MAX, STREAMS_MAX, METADATA_MAX, WINDOW)
        self.sock.sendall(struct.pack("<IHHIIQQ", MAGIC, 1, 1, 0, 0, 0, 0) + os.urandom(16) + limits)
        theirs = self.read(72)
        magic, verdict, _ = struct.unpack_from("<IHH", theirs, 64)
        if magic != MAGIC or verdict != 1:
            raise ProtocolError(f"refused: {verdict}")
        message_max, self.slots_there, _, self.window = struct.unpack_from("<4I", theirs, 48)
        session = 2 * (self.window + message_max)
        self.credit = [session, session, session, self.window]
        self.sock.sendall(struct.pack("<IHH", MAGIC, 1, 1))
        self.send(CLOCK, 0, 0, 0, 0, struct.pack("<I", int(time.monotonic() * 1000) & 0xFFFFFFFF))

    def run(self):
        """Runs until the other side closes. Incoming frames go first; streams need credit."""
        while True:
            is_busy = self.send_what_may_go()
            if not select.select([self.sock], [], [], 0 if is_busy else None)[0]:
                continue
            head = self.sock.recv(4)
            if not head:
                return
            self.take(head + self.read(4 - len(head)))

    def read(self, count):
        parts = bytearray()
        while len(parts) < count:
            part = self.sock.recv(count - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)

    def send(self, kind, flags, aux, slot, generation, fields=b"", payload=b""):
        header = struct.pack("<BBHII", kind, flags, aux, slot, generation) + fields
        self.sock.sendall(struct.pack("<I", len(header) + len(payload)) + header + payload)

    def take(self, head):
        (length,) = struct.unpack("<I", head)
        if not 12 <= length <= PIECE + 120:
            raise ProtocolError("length of a frame")
        frame = self.read(length)
        kind, flags, aux, slot, generation = struct.unpack_from("<BBHII", frame)
        if kind not in HEADER_BYTES or length < HEADER_BYTES[kind]:
            raise ProtocolError("type of a frame")
        fields = struct.unpack_from(f"<{(HEADER_BYTES[kind] - 12) // 4}I", frame, 12)
        payload = frame[HEADER_BYTES[kind] :]
        if kind == METHOD:
            self.names.append(payload.decode())
        elif kind == CREDIT:
            self.on_credit(slot, generation, fields[0])
        elif kind == PING:
            self.send(PONG, 0, 0, slot, 0)
        elif kind == GOAWAY:
            self.send(GOAWAY, LAST, 0, 0, 0)  # this side makes no calls
        elif kind != CLOCK:
            self.on_frame(kind, flags, aux, slot, generation, fields, payload)

    def on_credit(self, slot, generation, count):
        call = self.calls.get((slot, generation))
        if generation == 0:
            self.credit[slot] += count
        elif call is not None:
            call.credit += count

    def on_frame(self, kind, flags, aux, slot, generation, fields, payload):
        key = (slot, generation)
        call = self.calls.get(key)
        if kind == OPEN:
            if generation != self.generations.get(slot, 0) % 0xFFFFFFFF + 1 or slot >= STREAMS_MAX + 4:
                raise ProtocolError("slot or generation")
            self.generations[slot] = generation
            self.on_open(key, aux, fields, payload)
        elif kind == MESSAGE and flags & OF_STREAM and not flags & BEYOND:
            self.give_back(STREAMS, fields[0])  # a refused call's message is charged, too
        elif call is None:
            pass  # late: the call was answered
        elif kind == FRAGMENT:
            call.request += payload
            self.on_piece(key, call)
        elif kind == RESET:
            if call.answers is None:  # the request was not complete
                self.release(key, call)
            self.send(RESET, 0, aux, *key)
            self.finish(key)

    def on_open(self, key, kind, fields, payload):
        method, timeout, metadata_bytes, length, window, _ = fields
        at = 0
        if method >= 1 << 31:
            at = method - (1 << 31)
            name = payload[:at].decode()
        else:
            name = self.names[method]
        if length > MESSAGE_MAX or metadata_bytes > METADATA_MAX:
            raise ProtocolError("length of a message")
        deadline = None if timeout == 0xFFFFFFFF else time.monotonic() + timeout / 1000
        piece = payload[at + metadata_bytes :]
        call = self.calls[key] = Call(name, kind, deadline, window or self.window, length, piece)
        self.on_piece(key, call)

    def on_piece(self, key, call):
        if len(call.request) > call.length:
            raise ProtocolError("fragment beyond its message")
        if len(call.request) < call.length:
            return
        function = self.functions.get(call.name)
        wanted = SERVER_STREAM if inspect.isgeneratorfunction(function) else UNARY
        is_right = function is not None and (call.kind == wanted or (call.kind, wanted) == (NOTIFICATION, UNARY))
        if not is_right:
            self.release(key, call)
            return self.fail(key, 12, "not served here" if function is None else "another kind of method")
        try:
            request = json.loads(call.request) if call.request else None
        except ValueError:
            self.release(key, call)
            return self.fail(key, 3, "the request is no JSON")
        try:
            result = function(request)
        except Exception as error:  # only the type is sent: texts are private
            result = error
        self.release(key, call)
        if isinstance(result, Exception):
            self.fail(key, 13, type(result).__name__)
        elif call.kind == NOTIFICATION:
            self.fail(key, 0, "")
        elif call.kind == UNARY:
            call.answers = iter(())
            self.waiting.append((key, encode(result)))
        else:
            call.answers = result

    def release(self, key, call):
        if key[0] < STREAMS_MAX:  # higher slots are of tools, and not charged
            self.give_back(NOTIFICATIONS if call.kind == NOTIFICATION else REQUESTS, call.length)

    def give_back(self, window, length):
        self.send(CREDIT, 0, 0, window, 0, struct.pack("<I", length + OVERHEAD))

    def fail(self, key, status, words):
        text = words.encode()
        self.send(END, 0, status, *key, struct.pack("<II", 0, len(text)), text)
        self.finish(key)

    def finish(self, key):
        call = self.calls.pop(key, None)
        if call is not None and inspect.isgenerator(call.answers):
            call.answers.close()

    def send_what_may_go(self):
        """Sends answers, then one message per stream. True: a stream may have more."""
        while self.waiting and self.credit[ANSWERS] > 0:
            key, answer = self.waiting.popleft()
            if key not in self.calls:
                continue
            self.credit[ANSWERS] -= len(answer) + OVERHEAD
            self.send_message(key, LAST, answer)
            self.finish(key)
        is_busy = False
        for key, call in list(self.calls.items()):
            if call.kind != SERVER_STREAM or call.answers is None:
                continue
            if call.deadline is not None and time.monotonic() >= call.deadline:
                self.send(RESET, 0, DEADLINE, *key)
                self.finish(key)
            elif self.credit[STREAMS] > 0 and call.credit > 0:
                self.send_next(key, call)
                is_busy = True
        return is_busy

    def send_next(self, key, call):
        try:
            message = encode(next(call.answers))
        except StopIteration:
            return self.fail(key, 0, "")
        except Exception as error:
            return self.fail(key, 13, type(error).__name__)
        self.credit[STREAMS] -= len(message) + OVERHEAD
        call.credit -= len(message) + OVERHEAD
        self.send_message(key, OF_STREAM, message)

    def send_message(self, key, flags, message):
        self.send(MESSAGE, flags, 0, *key, struct.pack("<I", len(message)), message[:PIECE])
        for at in range(PIECE, len(message), PIECE):
            self.send(FRAGMENT, 0, 0, *key, b"", message[at : at + PIECE])


def encode(value):
    return b"" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def serve(functions):
    """Serves `{ 'Service.method': function }` to the parent process, until it closes."""
    fd, parent = int(os.environ.pop("SIDECALL_FD")), os.environ.pop("SIDECALL_PARENT", None)
    os.set_inheritable(fd, False)
    if parent is not None and hasattr(os, "pidfd_open") and os.getppid() == int(parent):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != int(parent):
            os._exit(1)
    session = Session(socket.socket(fileno=fd), functions)
    try:
        session.meet()
        session.run()
    except (EOFError, ConnectionError):
        pass  # the other side has closed
