"""A helper in Python, built on examples/python-helper."""
import sys
import time

sys.path.insert(0, sys.argv[1])
import sidecall_helper  # noqa: E402

noted = []


def echo(value):
    return value


def note(value):
    noted.append(value)


def fail(_):
    raise LookupError("words of ours")


def upload(count):
    for number in range(count):
        yield {"number": number, "fill": "x" * 1000}


def forever(_):
    try:
        while True:
            time.sleep(0.001)
            yield "again"
    finally:
        noted.append("closed")


sidecall_helper.serve(
    {
        "Py.echo": echo,
        "Py.note": note,
        "Py.noted": lambda _: noted,
        "Py.fail": fail,
        "Py.upload": upload,
        "Py.forever": forever,
    }
)
