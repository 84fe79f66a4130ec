"""The search for the likeliest maximum: candidates, climbing, moves between maxima, and how sure the result is.

``sources`` makes first candidates, ``climbing`` takes many of them uphill in shared passes, ``moves`` leads from one
maximum towards others, ``conductor`` says when to stop, ``fitting`` climbs from the winner on all rows, and
``certificate`` says how sure it is. Whatever looks at rows is a query (:mod:`wmlr.statistics.seeds`,
:mod:`wmlr.statistics.candidates`), so that the search runs wherever the rows are.
"""
