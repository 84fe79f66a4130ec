"""What the library says in Python's words, in those of the command line."""

from __future__ import annotations

import re

WORDS = (
    (r"; columns that follow .* counted from 0\)", ""),  # which these are is said by name
    (r"search='thorough'", "--search thorough"),
    (r"raise max_iter", "raise --max-iter"),
    (r"symmetric=True", "--symmetric"),
    (r"\bn_components=", "--components "),
    (r"shared_sigma=True", "leave out --separate-sigma"),
    (r"fit with a smaller tol or a larger max_iter", "raise --max-iter"),
    (r"\b(criterion|family|method)='([\w-]+)'", r"--\1 \2"),
    (r"\bon_empty='(\w+)'", r"on_empty='\1' in Python"),
    (r"\b(offset|exposure|trials)= ", r"--\1 "),
    (r"\b(n_init|max_iter|alpha|search|sigma|shared|only|fixed|groups|criterion|start|method|solver)=", r"--\1 "),
    (r"\bn_components\b", "--components"),
    (r"\b(n_init|max_iter|sample_weight)\b", r"--\1"),
)


def in_options(text: str) -> str:
    """A message of the library with options for Python's arguments."""
    for pattern, instead in WORDS:
        text = re.sub(pattern, instead, text)
    text = text.replace("--sample_weight", "--weights")
    return re.sub(r"--\w+", lambda found: found[0].replace("_", "-"), text)
