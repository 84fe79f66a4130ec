"""Tests in two lengths: every run takes a sample of their cases, ``make audit`` the others."""

from typing import Any

import pytest


def long(*case: Any) -> Any:
    """A case of a test that the long run alone takes."""
    return pytest.param(*case, marks=pytest.mark.long)
