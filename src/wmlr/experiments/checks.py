"""What a reproduction should show, each claim with the figure measured for it."""

from __future__ import annotations

from dataclasses import dataclass

from wmlr.experiments.outcome import Numbers, ResultTable, exponent
from wmlr.experiments.printed import TABLE2

LEAST_GEM = {20.0: 5_000, 10.0: 1_000, 5.0: 150}
ROUNDS = (60, 130)
ERROR_SHARE = 0.15
MOST_ROUNDS = 6
OVER_ORACLE = {20.0: 1.03, 10.0: 1.03, 5.0: 1.03, 1.0: 1.06}
MOST_SECONDS = 900
MOST_SECONDS_OF_SEARCH = 3 * 3600


@dataclass(frozen=True)
class Check:
    """A claim, what was measured, and whether it is met."""

    claim: str
    measured: str
    met: bool


def checks(found: dict[str, Numbers], ran: Numbers | None = None) -> list[Check]:
    """Every claim that the results at hand can decide; ``ran`` holds a whole run's seconds."""
    made: list[Check] = []
    if "table4" in found:
        made += _quartiles(found["table4"])
    if "table2" in found:
        made += _agents(found["table2"])
    if ran is not None:
        made.append(_time(ran, found.get("table3", {}).get("searched", False)))
    return made


def table(made: list[Check]) -> ResultTable:
    rows = tuple((check.claim, check.measured, "yes" if check.met else "no") for check in made)
    return ResultTable("What it must show", ("claim", "measured", "met"), rows)


def _range(row: Numbers, part: str) -> str:
    form = exponent if part == "error" else "{:.0f}".format
    low, high = row.get(f"{part}_range", [row[part], row[part]])
    return f"{form(low)} to {form(high)}"


def _time(ran: Numbers, searched: bool) -> Check:
    most = MOST_SECONDS_OF_SEARCH if searched else MOST_SECONDS
    text = f"{ran['seconds']:.0f} s, {ran['processor_seconds']:.0f} s of processor time"
    return Check(f"everything within {most} s on two cores", text, ran["seconds"] <= most)


def _quartiles(found: Numbers) -> list[Check]:
    made = []
    for part, label in (("error", "relative error"), ("nll", "NLL")):
        meeting = [cell for cell in found["cells"] if cell[f"{part}_overlaps"]]
        apart = [
            f"{cell['method'].upper()} at n = {cell['n']:,}, SNR {cell['snr']:g}"
            for cell in found["cells"]
            if not cell[f"{part}_overlaps"]
        ]
        text = f"{len(meeting)} of {len(found['cells'])}" + (f"; not {', '.join(apart)}" if apart else "")
        made.append(Check(f"Table 4: the intervals of the {label} meet the printed ones", text, not apart))
    return made


def _agents(found: Numbers) -> list[Check]:
    made = []
    for cell in found["cells"]:
        snr, wmlr = cell["snr"], cell["methods"]["wmlr"]
        rounds = wmlr.get("rounds_to_converge")
        printed = TABLE2[snr]["wmlr"]
        ratio = wmlr["error"] / printed[1] if printed else float("nan")
        made += [
            Check(
                f"F-WMLR converges in {ROUNDS[0]} to {ROUNDS[1]} rounds, SNR {snr:g}",
                "did not converge"
                if rounds is None
                else f"{rounds:.0f} on average with the start's; iterations {_range(wmlr, 'iterations')}",
                rounds is not None and ROUNDS[0] <= round(rounds) <= ROUNDS[1],
            ),
            Check(
                f"F-WMLR's mean error within 15% of the printed one, SNR {snr:g}",
                f"{exponent(wmlr['error'])}, {100 * (ratio - 1):+.0f}%; single runs {_range(wmlr, 'error')}",
                abs(ratio - 1) <= ERROR_SHARE,
            ),
            *(_long_gem(cell) if snr in LEAST_GEM else ()),
            Check(
                f"agent level, refreshed: at most {MOST_ROUNDS} rounds in all, SNR {snr:g}",
                f"{cell['agent_level_most_rounds']} at most",
                cell["agent_level_most_rounds"] <= MOST_ROUNDS,
            ),
            Check(
                f"agent level, refreshed: error at most {OVER_ORACLE[snr]:g} times the oracle's, SNR {snr:g}",
                f"{cell['agent_level_over_oracle']:.4f} at most",
                cell["agent_level_over_oracle"] <= OVER_ORACLE[snr],
            ),
        ]
    return made


def _long_gem(cell: Numbers) -> list[Check]:
    least, rounds = LEAST_GEM[cell["snr"]], cell["methods"]["gem"].get("iterations")
    text = "did not converge" if rounds is None else f"{rounds:,.0f}"
    claim = f"F-GEM needs over {least:,} rounds, SNR {cell['snr']:g}"
    return [Check(claim, text, rounds is not None and rounds > least)]
