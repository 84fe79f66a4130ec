"""Text from files, as it may be shown on a terminal."""

from __future__ import annotations

LONGEST_LINE = 20_000


def printable(text: str) -> str:
    """Text whose control characters, escape codes and marks of direction are shown by their numbers; lines stay."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign == "\n" else _number(sign) for sign in text)


def one_line(text: str) -> str:
    """Text as one line that can be printed and is not endless: what is left out of its middle is counted."""
    line = printable(" ".join(text.split()))
    if len(line) <= LONGEST_LINE:
        return line
    half = LONGEST_LINE // 2
    return f"{line[:half]} ... ({len(line) - 2 * half:,} more signs) ... {line[-half:]}"


def shown_text(text: str, most: int = 120) -> str:
    """Somebody's text as it may be shown: printable, and not endless."""
    printable = "".join(sign if sign.isprintable() else "\ufffd" for sign in text)
    return printable if len(printable) <= most else f"{printable[: most - 1]}…"


def _number(sign: str) -> str:
    code = ord(sign)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
