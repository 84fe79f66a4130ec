"""flexmix and wmlr are asked for the same mixture of counts, or of successes, on the same rows."""

import shutil

import pytest

from longer import long
from wmlr.bench import peers


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
@pytest.mark.parametrize("given", ["poisson", long("binomial")])
def test_flexmix_ends_at_the_same_likelihood(given, monkeypatch):
    monkeypatch.setattr(peers, "REPEATS", 2)
    found = peers.run(lambda text: None, (peers.PeerCase(1_000, 3, 3, 1.0, peers.FLEXMIX, family=given),))
    ours, *theirs = found.numbers["fits"]
    best = max(one["log_likelihood"] for one in theirs)
    assert ours["log_likelihood"] == pytest.approx(best, abs=0.05)
    assert ours["log_likelihood"] >= best - peers.SAME
    assert given in found.rows[0][0]
