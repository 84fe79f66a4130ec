"""The search for the likeliest maximum: candidates, climbing, moves between maxima, and how sure the result is.

``sources`` makes first candidates, ``climbing`` takes many of them uphill in shared passes, ``stages`` does both first;
``moves`` leads from one maximum towards others, in ``generations`` that end when nothing comes of them; ``fitting``
climbs from the best on all rows, and ``certificate`` says how sure it is. Whatever looks at rows is a query
(:mod:`wmlr.statistics.seeds`, :mod:`wmlr.statistics.candidates`), so that the search runs wherever the rows are.
"""
