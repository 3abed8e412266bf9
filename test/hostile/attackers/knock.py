"""Another user that connects at full speed: knock.py PATH SECONDS. Prints the numbers of
connections that succeeded and that were denied."""
import json
import socket
import sys
import time

path, seconds = sys.argv[1], float(sys.argv[2])
end = time.monotonic() + seconds
counts = {"in": 0, "denied": 0}
while time.monotonic() < end:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
        counts["in"] += 1
    except PermissionError:
        counts["denied"] += 1
    except OSError:
        pass
    sock.close()
print(json.dumps(counts), flush=True)
