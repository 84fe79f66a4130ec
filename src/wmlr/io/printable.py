"""Text from files, as it may be shown on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text whose control characters, escape codes and marks of direction are shown by their numbers; lines stay."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign == "\n" else _number(sign) for sign in text)


def _number(sign: str) -> str:
    code = ord(sign)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
