"""Counts and splits words. Standard library only."""
import sidecall_helper


def count(text):
    return len(text.split())


def split(text):
    for word in text.split():
        yield {"word": word, "letters": len(word)}


sidecall_helper.serve({"Words.count": count, "Words.split": split})
