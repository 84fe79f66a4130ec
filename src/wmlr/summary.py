"""A fit as a table to read."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from scipy.stats import norm

from wmlr.round import Array


@dataclass(frozen=True)
class Line:
    """One parameter: its component, name, estimate and, where known, standard error."""

    component: int
    name: str
    estimate: float
    error: float | None = None

    def cells(self) -> list[str]:
        if self.error is None:
            return [self.name, f"{self.estimate:.4f}"]
        if not self.error > 0:
            return [self.name, f"{self.estimate:.4f}", "", "", "", "", ""]
        z = self.estimate / self.error
        low, high = self.estimate - 1.96 * self.error, self.estimate + 1.96 * self.error
        p = 2.0 * float(norm.sf(abs(z)))
        values = [f"{self.estimate:.4f}", f"{self.error:.4f}", f"{z:.3f}", f"{p:.3f}", f"{low:.4f}", f"{high:.4f}"]
        return [self.name, *values]


@dataclass(frozen=True)
class Summary:
    """The table of a fit; ``str`` for the terminal, HTML in a notebook."""

    title: str
    facts: tuple[tuple[str, str], ...]
    components: tuple[tuple[str, tuple[Line, ...]], ...]

    @classmethod
    def of(cls, fit: Any, errors: Array | None = None) -> Summary:
        """From a fitted estimator and the standard errors of its free parameters, if they are known."""
        mixture = fit.mixture_
        names = [str(name) for name in feature_names(fit)]
        intercept = bool(fit.fit_intercept and not fit.symmetric)
        if intercept:
            names.append("(intercept)")
        width = len(names)
        blocks = []
        for j in range(mixture.n_components):
            values = [*mixture.coef[j], mixture.intercept[j]][:width]
            own = 0 if fit.symmetric else j
            lines = [
                Line(j, name, float(value), None if errors is None else float(errors[own * width + i]))
                for i, (name, value) in enumerate(zip(names, values))
            ]
            header = f"component {j + 1}: weight {mixture.weights[j]:.4f}, sigma {mixture.sigma[j]:.4f}"
            blocks.append((header, tuple(lines)))
        facts = (
            ("components", str(mixture.n_components)),
            ("features", str(mixture.n_features)),
            ("log-likelihood", f"{fit.log_likelihood_:.4f}"),
            ("parameters", str(fit.n_parameters_)),
            ("iterations", str(fit.n_iter_)),
            ("converged", "yes" if fit.converged_ else "no"),
        )
        return cls("Mixture of linear regressions", facts, tuple(blocks))

    @property
    def columns(self) -> list[str]:
        has_errors = any(line.error is not None for _, lines in self.components for line in lines)
        return ["", "coef", "std err", "z", "P>|z|", "[0.025", "0.975]"] if has_errors else ["", "coef"]

    def __str__(self) -> str:
        rows = [line.cells() for _, lines in self.components for line in lines]
        widths = [max(len(cell) for cell in column) for column in zip(self.columns, *rows)]
        widths = [widths[0], *(max(width, 10) for width in widths[1:])]
        across = max(sum(widths) + 2 * (len(widths) - 1), 48)
        out = [self.title.center(across).rstrip(), "=" * across]
        for left, right in zip(self.facts[::2], self.facts[1::2]):
            half = across // 2 - 1
            out.append(f"{left[0]}: {left[1]}".ljust(half) + "  " + f"{right[0]}: {right[1]}")
        for header, lines in self.components:
            out += ["-" * across, header, _joined(self.columns, widths)]
            out += [_joined(line.cells(), widths) for line in lines]
        return "\n".join([*out, "=" * across])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self.facts)
        body = ""
        for header, lines in self.components:
            body += f'<tr><th colspan="{len(self.columns)}" style="text-align:left">{escape(header)}</th></tr>'
            for line in lines:
                body += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line.cells()) + "</tr>"
        head = "".join(f"<th>{escape(column)}</th>" for column in self.columns)
        return f"<h4>{self.title}</h4><table>{facts}</table><table><tr>{head}</tr>{body}</table>"


def _joined(cells: list[str], widths: list[int]) -> str:
    first, *rest = cells
    padded = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:]))]
    return "  ".join(padded).rstrip()


def feature_names(fit: Any) -> list[str]:
    """Names of the columns the coefficients belong to."""
    if fit.features is not None and hasattr(fit.features_, "get_feature_names_out"):
        return list(fit.features_.get_feature_names_out(getattr(fit, "feature_names_in_", None)))
    names = getattr(fit, "feature_names_in_", None)
    count = fit.mixture_.n_features
    return list(names) if names is not None and len(names) == count else [f"x{i}" for i in range(count)]
