"""A running fit on a local page: its rounds, its likelihood, who answers, and what travels."""

from __future__ import annotations

from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from wmlr.core.round import Engine, Report, Watcher
from wmlr.dashboard.log import RunLog, WatchedEngine
from wmlr.dashboard.serving import LOCAL, PageServer
from wmlr.io.printable import shown_text
from wmlr.metrics import coefficient_error
from wmlr.report.document import asset, document, figure, pair

__all__ = ["LOCAL", "Live"]

PATIENCE = 2.0
"""Seconds that an open page is given to see the end."""


class Live:
    """A page that follows a fit as it goes on, served on this machine.

    It is read only, and answers only to its own address. The page asks for news every second; the fit does not
    wait for it. The server's thread ends with :meth:`stop`, or with the process.

    Parameters
    ----------
    title : what the page is about.
    host : where to listen; another machine can look on only where this is not 127.0.0.1.
    port : the port; 0 takes a free one.
    truth : (k, d), the true coefficients where they are known: the page then shows the relative error too.

    Attributes
    ----------
    url : where to look, once started.

    Examples
    --------
    >>> from wmlr import MixedLinearRegression
    >>> from wmlr.dashboard import Live
    >>> from wmlr.datasets import make_mixed_regression
    >>> from wmlr.federated import Federation
    >>> data = make_mixed_regression(3000, 4, snr=5, symmetric=True, groups=10, random_state=0)
    >>> federation = Federation.split(data.X, data.y, data.groups, level="agent")
    >>> with Live("a trial") as live:
    ...     fit = MixedLinearRegression(symmetric=True, random_state=0).fit_on(live.over(federation), live)
    ...     live.state()["rounds"]["query"]
    ['Moments', 'SymmetricLengths', 'SymmetricScore', 'SymmetricScore']
    """

    def __init__(
        self, title: str = "wmlr", *, host: str = "127.0.0.1", port: int = 0, truth: ArrayLike | None = None
    ) -> None:
        self.title, self.host, self.port = title, host, port
        self._truth = None if truth is None else np.asarray(truth, dtype=np.float64)
        self._log = RunLog()
        self._served: PageServer | None = None

    def start(self) -> str:
        """Serve the page, and say where."""
        if self._served is None:
            self._served = PageServer(self._page(), self.state, self.host, self.port)
        return self._served.url

    def stop(self) -> None:
        """Say on the page that the run is over, and close it; an open page gets a moment to see the end."""
        self.finish()
        if self._served is not None:
            self._served.close(PATIENCE)
            self._served = None

    def finish(self) -> None:
        """Say on the page that the run is over; it stays open."""
        self._log.finish()

    @property
    def url(self) -> str:
        if self._served is None:
            raise RuntimeError("the page is not being served: start() it, or use it in a with statement")
        return self._served.url

    def over(self, engine: Engine) -> Any:
        """The engine, watched: fit on this, so that every round shows, the start's as well."""
        return WatchedEngine(engine, self._log)

    def watch(self, report: Report) -> None:
        """Take note of an iteration; the object itself can be called too."""
        record = {name: float(value) for name, value in report.record.items()}
        if self._truth is not None:
            record["error"] = float(coefficient_error(report.mixture.coef, self._truth))
        self._log.note(record)

    __call__ = watch

    def also(self, watch: Watcher | None) -> Watcher:
        """This, and another that watches."""

        def both(report: Report) -> None:
            self.watch(report)
            if watch is not None:
                watch(report)

        return both

    def state(self) -> dict[str, Any]:
        """What the page shows, as plain data."""
        return self._log.state()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self.stop()

    def _page(self) -> str:
        title = escape(shown_text(self.title))
        charts = [("likelihood", "Log-likelihood by iteration"), ("attendance", "Agents asked and answering")]
        charts += [("bytes", "Bytes by round"), ("seconds", "Seconds by round")]
        if self._truth is not None:
            charts.insert(1, ("error", "Relative error of the coefficients"))
        body = f"""<header><h1>{title}</h1><button type="button" id="theme">Theme: automatic</button>
<p><span class="state" id="state" role="status">connecting</span> <span id="asking"></span></p>
<dl class="facts" id="facts"></dl></header>
<main><section aria-label="Charts">{pair(*(figure(view, name) for view, name in charts))}</section>
<section aria-labelledby="last"><h2 id="last">Last rounds</h2>
<div class="wide text" tabindex="0" role="region" aria-label="Last rounds"><table id="rounds"></table></div></section>
</main>"""
        scripts = [asset("charts.js"), asset("views.js"), asset("live.js", "wmlr.dashboard")]
        return document(f"wmlr: {shown_text(self.title)}", body, {"every": 1000}, scripts, connect="'self'")
