"""The page of a running fit: it shows every round as it happens, changes nothing, and answers nobody else."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from browsing import chromium, opened, shapes, sideways
from wmlr import MixedLinearRegression
from wmlr.cli import app
from wmlr.dashboard import Live
from wmlr.datasets import make_mixed_regression
from wmlr.engines.arrays import ArrayRows
from wmlr.federated import ErrorTrace, Federation

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def data() -> Any:
    return make_mixed_regression(600, 3, snr=5, symmetric=True, groups=10, random_state=0)


def federation(data: Any, **more: Any) -> Federation:
    return Federation.split(data.X, data.y, data.groups, level="agent", **more)


def estimator() -> MixedLinearRegression:
    return MixedLinearRegression(symmetric=True, random_state=0)


class Gate:
    """An engine that answers a query when it is let."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._open = threading.Semaphore(0)

    def let(self, rounds: int) -> None:
        for _ in range(rounds):
            self._open.release()

    def total(self, query: Any) -> Any:
        assert self._open.acquire(timeout=30)
        return self._engine.total(query)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_engine"], name)


def asked(live: Live, path: str = "/", method: str = "GET", host: str | None = None) -> Any:
    """What the page's server answers to a request with this Host header; the default is its own."""
    address = live.url.removeprefix("http://").strip("/")
    connection = HTTPConnection(address, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    if host != "":
        connection.putheader("Host", host or address)
    connection.endheaders()
    answer = connection.getresponse()
    answer.body = answer.read()
    connection.close()
    return answer


def test_a_watched_fit_is_the_same_fit(data: Any) -> None:
    plain = estimator().fit_on(federation(data))
    live = Live()
    watched = estimator().fit_on(live.over(federation(data)), live)
    np.testing.assert_array_equal(plain.coef_, watched.coef_)
    assert plain.history_ == watched.history_
    assert plain.ledger_.records() == watched.ledger_.records()


def test_the_state_is_the_ledger_and_the_history(data: Any) -> None:
    rows = federation(data, participation=0.8, dropout=0.1, late=0.1)
    live, trace = Live(truth=data.coef), ErrorTrace(data.coef)
    fit = estimator().fit_on(live.over(rows), live.also(trace))
    state = live.state()
    for name in ("query", "asked", "answered", "late", "bytes"):
        assert state["rounds"][name] == [getattr(line, name) for line in fit.ledger_]
    assert state["rounds"]["cumulative"][-1] == fit.ledger_.totals()["bytes"]
    assert state["history"]["columns"]["log_likelihood"] == [record["log_likelihood"] for record in fit.history_]
    assert state["history"]["columns"]["error"] == trace.errors
    assert all(seconds >= 0 for seconds in state["rounds"]["seconds"])
    assert state["agents"] == rows.n_agents


def test_rounds_of_the_start_show_before_the_first_iteration(data: Any) -> None:
    live, seen = Live(), []

    class Looking(Gate):
        def total(self, query: Any) -> Any:
            state = live.state()
            seen.append((state["rounds"]["count"], state["history"]["count"], state["asking"]["query"]))
            return self._engine.total(query)

    fit = estimator().fit_on(live.over(Looking(federation(data))), live)
    assert [count for count, _, _ in seen] == list(range(len(fit.ledger_)))
    assert [name for _, _, name in seen] == [line.query for line in fit.ledger_]
    assert seen[1][1] == 0


def test_an_engine_without_a_ledger_shows_its_queries(data: Any) -> None:
    live = Live()
    estimator().fit_on(live.over(ArrayRows(data.X, data.y)), live)
    rounds = live.state()["rounds"]
    assert rounds["count"] == len(rounds["query"]) > 2
    assert "Moments" in rounds["query"][:2]
    assert set(rounds["bytes"]) == {0}


def test_very_many_rounds_are_thinned_and_the_last_is_kept(data: Any) -> None:
    live = Live()
    rows = live.over(federation(data))
    query = next(iter(_queries(data)))
    for _ in range(2500):
        rows.total(query)
    rounds = live.state()["rounds"]
    assert rounds["count"] == 2500
    assert len(rounds["round"]) == 1000
    assert rounds["round"][-1] == 2500
    assert rounds["cumulative"][-1] == rows.capabilities.ledger.totals()["bytes"]


def _queries(data: Any) -> Iterator[Any]:
    from wmlr.statistics.moments import Moments

    yield Moments(intercept=False)


def test_a_failure_is_said_and_goes_on_to_the_caller(data: Any) -> None:
    class Broken(Gate):
        def total(self, query: Any) -> Any:
            raise OSError("the line is dead")

    with Live() as live:
        with pytest.raises(OSError, match="the line is dead"):
            estimator().fit_on(live.over(Broken(federation(data))), live)
        state = json.loads(asked(live, "/state.json").body)
        assert (state["state"], state["reason"]) == ("failed", "OSError: the line is dead")
    assert live.state()["state"] == "failed"


def test_nothing_stays_open(data: Any) -> None:
    before = threading.active_count()
    live = Live()
    with pytest.raises(RuntimeError, match="not being served"):
        _ = live.url
    with live:
        port = int(live.url.rsplit(":", 1)[1].strip("/"))
        assert asked(live).status == 200
        assert all(thread.daemon for thread in threading.enumerate() if thread.name == "wmlr dashboard")
    assert threading.active_count() == before
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    live.stop()
    assert live.start() == live.start()
    live.stop()


def test_the_port_can_be_given_and_is_refused_where_it_is_taken() -> None:
    with Live() as first, pytest.raises(ValueError, match="name another port"):
        Live(port=int(first.url.rsplit(":", 1)[1].strip("/"))).start()


def test_only_its_own_address_is_answered() -> None:
    with Live() as live:
        port = live.url.rsplit(":", 1)[1].strip("/")
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"):
            assert asked(live, "/state.json", host=host).status == 200
        for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "127.0.0.1:1",
                     f"a@127.0.0.1:{port}", f"10.0.0.1:{port}", "127.0.0.1:x", ""):  # fmt: skip
            answer = asked(live, "/state.json", host=host)
            assert answer.status == 403, host
            assert b"rounds" not in answer.body
        assert live._served is not None
        assert live._served._server.server_address[0] == "127.0.0.1"


def test_it_is_read_only_and_opens_no_door_to_other_sites() -> None:
    with Live() as live:
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"):
            assert asked(live, method=method).status == 405
        assert asked(live, "/../etc/passwd").status == 404
        for path in ("/", "/state.json"):
            answer = asked(live, path)
            names = {name.lower() for name, _ in answer.getheaders()}
            assert not any(name.startswith("access-control") for name in names)
            assert answer.getheader("X-Frame-Options") == "DENY"
            assert answer.getheader("X-Content-Type-Options") == "nosniff"
            assert answer.getheader("Cache-Control") == "no-store"
        assert "connect-src 'self'" in asked(live).body.decode()


def test_a_title_stays_text() -> None:
    with Live(HOSTILE) as live:
        page = asked(live).body.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (400, "dark")])
def test_a_browser_follows_a_real_run_to_its_end(browser: Any, data: Any, width: int, scheme: str) -> None:
    live = Live(HOSTILE, truth=data.coef)
    gate = Gate(federation(data, participation=0.9, late=0.1))
    fits: list[Any] = []
    with live:
        running = threading.Thread(target=lambda: fits.append(estimator().fit_on(live.over(gate), live)), daemon=True)
        with opened(browser, live.url, width, scheme) as page:
            rounds = page.locator("#facts dd").first
            page.get_by_text("waiting for the fit to begin").wait_for()
            assert sideways(page) == 0
            running.start()
            page.get_by_text("asking for Moments").wait_for()
            gate.let(2)
            rounds.get_by_text("2", exact=True).wait_for()
            assert shapes(page, "bytes") == 2
            assert shapes(page, "likelihood") == 0
            gate.let(1000)
            running.join(30)
            live.finish()
            page.get_by_text("done", exact=True).wait_for()
            (fit,) = fits
            assert rounds.inner_text() == str(len(fit.ledger_))
            assert all(shapes(page, view) > 0 for view in ("likelihood", "error", "attendance", "bytes", "seconds"))
            page.locator('figure[data-view="bytes"] rect').last.hover()
            said = page.locator('figure[data-view="bytes"] .tip').inner_text()
            found = re.match(r"round (\d+): (.*)\n", said)
            assert found is not None
            assert fit.ledger_[int(found[1]) - 1].query == found[2]
            assert page.locator("#rounds tbody tr").count() == min(12, len(fit.ledger_))
            assert sideways(page) == 0


def test_closing_waits_until_an_open_page_has_seen_the_end(browser: Any, data: Any) -> None:
    live = Live()
    live.start()
    with opened(browser, live.url) as page:
        page.get_by_text("waiting for the fit to begin").wait_for()
        estimator().fit_on(live.over(federation(data)), live)
        closing = threading.Thread(target=live.stop)
        closing.start()
        page.get_by_text("done", exact=True).wait_for()
        closing.join(20)
        assert not closing.is_alive()


def test_simulate_serves_the_page_while_it_runs() -> None:
    words = ["simulate", "co2", "--target", "CO2", "--agent-column", "country", "--separate-sigma"]
    plain = CliRunner().invoke(app, words, prog_name="wmlr")
    shown = CliRunner().invoke(app, [*words, "--dashboard"], prog_name="wmlr")
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout == plain.stdout
    (url,) = re.findall(r"watched at (http://127\.0\.0\.1:\d+/)", shown.stderr)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)
