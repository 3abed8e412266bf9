"""A control without an attack: computes beside the victim, to separate load on the processors from
an attack. busy.py PATH SECONDS PROCESSES."""
import os
import sys
import time

_, seconds, processes = sys.argv[1:]
until = time.monotonic() + float(seconds)
children = []
for _ in range(int(processes)):
    child = os.fork()
    if child == 0:
        while time.monotonic() < until:
            sum(range(10_000))
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
