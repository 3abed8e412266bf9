"""Runs a program that may make no memory file: without-memfd.py COMMAND ARGS... A seccomp filter
answers memfd_create with EPERM, as a container's profile may."""
import ctypes
import os
import platform
import struct
import sys

NUMBERS = {"x86_64": 319, "aarch64": 279}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050001  # REFUSE: SECCOMP_RET_ERRNO with EPERM

steps = [
    (LOAD_WORD, 0, 0, 0),  # the number of the system call
    (JUMP_IF_EQUAL, 0, 1, NUMBERS[platform.machine()]),
    (RETURN, 0, 0, REFUSE),
    (RETURN, 0, 0, ALLOW),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
program = struct.pack("@HP", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
for call in (
    (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
    (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0),
):
    if libc.prctl(*call) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[1], sys.argv[1:])
