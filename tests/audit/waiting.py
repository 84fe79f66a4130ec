"""Checks that are not yet made where an option is on, each with its reason. Empty this as they are mended.

``WMLR_AUDIT_ALL=1`` makes them all the same.
"""

import os
from typing import Any

WAITING: dict[str, dict[str, str]] = {}


def waits(check: str, settings: dict[str, Any]) -> bool:
    """Whether a check is left out for a combination of options."""
    return not os.environ.get("WMLR_AUDIT_ALL") and any(settings[name] for name in WAITING.get(check, {}))
