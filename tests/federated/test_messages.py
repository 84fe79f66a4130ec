"""What travels arrives to the last bit, and what should not arrive is refused by name."""

import json
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import ClassVar, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from wmlr import MixedLinearRegression
from wmlr.core.query import PublicScales, Query
from wmlr.core.round import Rows, Sampled, Together, run
from wmlr.datasets import make_mixed_regression
from wmlr.engines.arrays import ArrayRows
from wmlr.families import NORMAL, Poisson, Student
from wmlr.features.maps import Mapped
from wmlr.features.transformers import Described
from wmlr.federated import Federation, wire
from wmlr.federated.checks import check_answer, check_query
from wmlr.federated.messages import MessageError, digest, pack, pack_sums, query_kinds, unpack, unpack_sums
from wmlr.inference.uncertainty import Constraints, covariance
from wmlr.methods import EM, GDA, GEM, IFCA, AltMin, FederatedEM, MixIRLS, PrintedEM, Reduction, Refreshed
from wmlr.methods.partial import partial
from wmlr.methods.private import private
from wmlr.methods.task import Task
from wmlr.model.gates import EQUAL
from wmlr.numerics.expectations import Drawn, GaussHermite
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.local import LocalSteps
from wmlr.statistics.minimax import Minimax, SymmetricMinimax
from wmlr.statistics.moments import FourthMoments, Moments, SecondMoments
from wmlr.statistics.robust import Histogram, Trimmed
from wmlr.statistics.score import MixtureLikelihood, MixtureScore
from wmlr.statistics.symmetric_score import SymmetricLengths, SymmetricResiduals, SymmetricScore

SYMMETRIC = Task(symmetric=True, gate=EQUAL, max_iter=4, draws=False)
THREE = Task(n_components=3, intercept=True, max_iter=3, search="quick", draws=False)
RUNS = {
    "refreshed": (Refreshed(), SYMMETRIC),
    "refreshed, random": (Refreshed(), replace(SYMMETRIC, start="random")),
    "refreshed, k=3": (Refreshed(), THREE),
    "refreshed, polished": (Refreshed(), replace(THREE, max_iter=100)),
    "refreshed, Student": (Refreshed(), replace(THREE, family=Student(4.0))),
    "refreshed, ridge, shared": (Refreshed(), replace(THREE, ridge=0.5, shared=(0,))),
    "refreshed, wide": (Refreshed(), replace(SYMMETRIC, wide=True)),
    "refreshed, wide, k=3": (Refreshed(), replace(THREE, wide=True)),
    "EM, wide, Student": (EM(), replace(THREE, wide=True, family=Student(4.0))),
    "reduction": (Reduction(), Task(gate=EQUAL, intercept=True, max_iter=3, draws=False)),
    "GDA": (GDA(), SYMMETRIC),
    "GDA, frozen": (GDA(expectation="frozen", samples=2, coordinates="raw"), SYMMETRIC),
    "GDA, fresh": (GDA(expectation="fresh", extragradient=True), SYMMETRIC),
    "GDA, k=3": (GDA(nodes=4), THREE),
    "GDA, local steps": (GDA(local_steps=3), SYMMETRIC),
    "GDA, local steps, k=3": (GDA(nodes=4, local_steps=2, coordinates="raw"), THREE),
    "EM": (EM(), SYMMETRIC),
    "EM, k=3": (EM(), THREE),
    "EM, a sigma each": (EM(), replace(THREE, shared_sigma=False, max_iter=20)),
    "EM, Student": (EM(), replace(THREE, family=Student(3.0))),
    "EM, counts": (EM(), replace(THREE, family=Poisson(), sigma=1.0)),
    "F-EM": (FederatedEM(inner=3), SYMMETRIC),
    "F-EM, k=3": (FederatedEM(inner=2), THREE),
    "GEM": (GEM(), SYMMETRIC),
    "GEM, k=3": (GEM(), THREE),
    "IFCA": (IFCA(), SYMMETRIC),
    "IFCA, k=3": (IFCA(), THREE),
    "AltMin": (AltMin(), SYMMETRIC),
    "AltMin, k=3": (AltMin(), THREE),
    "Mix-IRLS, outliers, k=3": (MixIRLS(outliers=0.05), THREE),
    "printed EM": (PrintedEM(reciprocal=False), SYMMETRIC),
}
BOTH = ("refreshed", "refreshed, k=3", "EM", "GDA", "GDA, local steps")
"""Run on rows and on groups, and with agents that change; of the others one on rows, the next on groups."""


class Posted:
    """An engine that sends every query and every answer through bytes, and looks at both."""

    sent: ClassVar = {}

    def __init__(self, engine, rows, seen):
        self.engine, self.rows, self.seen = engine, rows, seen

    @property
    def n_features(self):
        return self.engine.n_features

    def total(self, query):
        arrived = unpack(pack(query))
        assert digest(arrived) == digest(query)
        check_query(arrived, self.n_features)
        self.sent[query.label, str(query.parts(self.n_features, True).keys())] = query
        sums = self.engine.total(arrived)
        check_answer(sums, query, self.n_features, self.rows)
        self._note(query)
        return unpack_sums(pack_sums(sums))

    def _note(self, query):
        self.seen.add(type(query).__name__)
        for one in fields(query):
            value = getattr(query, one.name)
            for part in value if isinstance(value, tuple) else (value,):
                if is_dataclass(part):
                    self._note(part)


def problem(task, groups):
    data = make_mixed_regression(150, 3, task.n_components, snr=4, symmetric=task.symmetric, groups=5, random_state=3)
    y = np.round(np.abs(data.y)) if task.family.discrete else data.y
    return data.X, y, ArrayRows(data.X, y, groups=data.groups if groups else None)


def places(method, engine):
    path = []
    fit = run(method, engine, lambda report: path.append(report.mixture))
    return fit, path


@pytest.fixture(scope="module")
def journeys():
    """Every method as it is and through bytes, and the kinds of queries that were sent."""
    made, seen = {}, set()
    for place, (name, (solver, task)) in enumerate(RUNS.items()):
        for groups in (False, True) if name in BOTH else (bool(place % 2),):
            _, y, engine = problem(task, groups)
            posted = Posted(engine, len(y), seen)
            made[name, groups] = (places(solver.fit(task), engine), places(solver.fit(task), posted))
            if groups and name in BOTH:
                there = (places(partial(solver, task, 0.5), engine), places(partial(solver, task, 0.5), posted))
                made[f"{name}, changing agents", groups] = there
        if name in ("refreshed", "refreshed, polished"):
            given = task if task.symmetric else replace(task, start=np.eye(3, 4))
            there = [places(private(solver, given, 5, True), one) for one in (engine, posted)]
            made[f"{name}, within five rounds", True] = there
    return made, seen, Posted.sent


def test_every_method_goes_through_bytes_to_the_same_iterates(journeys):
    for name, ((wanted, path), (fit, posted)) in journeys[0].items():
        assert fit.log_likelihood == wanted.log_likelihood, name
        assert len(posted) == len(path) > 1, name
        for ours, theirs in zip(posted, path):
            for one in ("coef", "intercept", "weights", "sigma"):
                np.testing.assert_array_equal(getattr(ours, one), getattr(theirs, one), err_msg=str(name))


def test_standard_errors_go_through_bytes_and_every_kind_was_sent(journeys):
    seen = journeys[1]
    _, y, engine = problem(SYMMETRIC, False)
    phi = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False))
    model = MixedLinearRegression(symmetric=True, features=phi, random_state=0)
    sent = model.fit_on(Posted(engine, len(y), seen)).coef_
    np.testing.assert_array_equal(sent, model.fit_on(engine).coef_)
    for gate in ([0], "group"):
        _, y, engine = problem(THREE, gate == "group")
        model = MixedLinearRegression(3, gate=gate, start=np.eye(3), random_state=0, max_iter=20, tol=0)
        sent = model.fit_on(Posted(engine, len(y), seen)).coef_
        np.testing.assert_array_equal(sent, model.fit_on(engine).coef_)
    for family in (NORMAL, Student(4.0)):
        _, y, engine = problem(THREE, False)
        mixture = run(Refreshed().fit(replace(THREE, family=family)), engine).mixture
        free = Constraints(intercept=True)
        ours = covariance(mixture, Posted(engine, len(y), seen), free, robust=True)
        np.testing.assert_array_equal(ours, covariance(mixture, engine, free, robust=True))
    held = {"Described", "Drawn", "GaussHermite", "GroupGate", "LogitGate", "Normal", "Poisson", "Roles", "Student"}
    assert seen - held == query_kinds().keys()


@pytest.mark.parametrize("grouped", [False, True])
def test_every_kind_declares_what_it_answers(journeys, grouped):
    X = np.random.default_rng(0).standard_normal((8, 3))
    rows = Rows(X, np.round(np.abs(X.sum(axis=1))), None, np.array([0, 5]) if grouped else None, np.arange(8))
    for query in journeys[2].values():
        declared = {name: part.shape for name, part in query.parts(3, grouped).items()}
        assert declared == {name: np.shape(value) for name, value in query.answer(rows).items()}, query.label
        assert all(part.unit(PublicScales(2.0, 3.0, 50.0)) > 0 for part in query.parts(3, grouped).values())


def test_climbs_of_candidates_which_are_no_sums_cannot_be_sent():
    assert "CandidateScores" in query_kinds()
    assert not {"CandidateClimbs", "Exchanges", "Insertions"} & query_kinds().keys()


def test_every_array_in_a_query_has_an_agreed_shape():
    for cls in query_kinds().values():
        for name, hint in get_type_hints(cls, include_extras=True).items():
            if "ndarray" in str(hint):
                assert any(declared.shape for declared in getattr(hint, "__metadata__", ())), f"{cls.__name__}.{name}"


class Undeclared(Query):
    def answer(self, rows):
        return {"sum": np.array(rows.y.sum())}


def test_a_statistic_that_declares_nothing_is_not_asked_for_in_secret():
    agents = [(np.eye(4), np.arange(4.0)), (np.eye(4), np.arange(4.0))]
    assert Federation(agents).total(Undeclared())["sum"] == 12.0
    with pytest.raises(NotImplementedError, match="Undeclared does not declare its answer: give it parts"):
        Federation(agents, secure=True).total(Undeclared())


numbers = st.floats(allow_nan=False, allow_infinity=False)
arrays = hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0), elements=numbers)


@settings(max_examples=60)
@given(st.dictionaries(st.text(max_size=8), arrays, max_size=4))
def test_sums_come_back_to_the_last_bit(sums):
    back = unpack_sums(pack_sums(sums))
    assert list(back) == list(sums)
    for name, value in sums.items():
        assert back[name].tobytes() == value.tobytes()
        assert back[name].shape == value.shape


@settings(max_examples=60)
@given(
    hnp.arrays(np.float64, 3, elements=numbers),
    numbers,
    st.one_of(st.none(), hnp.arrays(np.float64, 3, elements=numbers)),
)
def test_queries_come_back_to_the_last_bit(beta, s2, mean):
    query = Sampled(Together((SymmetricScore(beta, s2, mean), Moments(True))), 0.25, 2**62)
    back = unpack(pack(query))
    assert pack(back) == pack(query)
    score = back.query.queries[0]
    assert score.beta.tobytes() == beta.tobytes()
    assert np.float64(score.s2).tobytes() == np.float64(s2).tobytes()
    assert (score.mean is None) == (mean is None)


def test_an_array_keeps_its_layout_and_may_be_written_to():
    gamma = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    back = unpack(pack(SymmetricMinimax(np.ones(3), gamma, 1.0, Drawn(3, 2, None))))
    assert back.gamma.flags.f_contiguous
    assert back.gamma.flags.writeable
    assert back.expectation == Drawn(3, 2, None)
    sums = unpack_sums(pack_sums({"a": np.float64(2.5), "b": np.arange(12.0).reshape(3, 4)[:, ::2]}))
    assert sums["a"].shape == ()
    np.testing.assert_array_equal(sums["b"], np.arange(12.0).reshape(3, 4)[:, ::2])


MINIMAX = SymmetricMinimax(np.ones(4), np.ones((4, 2)), 1.0, GaussHermite(4))


class Mine(Query):
    def answer(self, rows):
        return {}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Mine(), "Mine is not a known query"),
        (GaussHermite(4), "GaussHermite is not a known query"),
        (SymmetricScore(np.array([1.0, np.nan]), 1.0), r"SymmetricScore.beta is not finite \(nan at \(1,\)\)"),
        (SymmetricScore(np.ones(2), np.inf), r"SymmetricScore.s2 is not finite \(inf\)"),
        (
            SymmetricScore(np.ones(2, dtype=np.float32), 1.0),
            r"SymmetricScore.beta is of the wrong type \(array of float32",
        ),
        (SymmetricScore([1.0], 1.0), r"SymmetricScore.beta is of the wrong type \(list\)"),
        (SymmetricScore(np.ones(2), True), r"SymmetricScore.s2 is of the wrong type \(bool\)"),
        (Moments(1), r"Moments.intercept is of the wrong type \(int\)"),
        (Together((Moments(), Mine())), r"Together.queries is of the wrong type"),
        (Sampled(GaussHermite(3), 0.5), r"Sampled.query is of the wrong type \(GaussHermite\)"),
    ],
)
def test_what_may_not_be_sent_is_named(query, message):
    with pytest.raises(MessageError, match=message):
        pack(query)


def test_nesting_has_an_end():
    query = Moments()
    for _ in range(20):
        query = Trimmed(query, 0.0, 1.0)
    with pytest.raises(MessageError, match="nested more than 16 deep"):
        pack(query)


def forged(header, rest=b"", version=wire.VERSION, magic=wire.MAGIC):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return wire.PREFIX.pack(magic, version, len(text)) + text + rest


def query_of(content):
    return {"what": "query", "content": content}


def array_of(dtype="<f8", shape=(1,), order="C"):
    return {"array": dtype, "shape": list(shape), "order": order}


def score(**more):
    content = {"beta": array_of(), "s2": 1.0, "mean": None}
    return query_of({"kind": "SymmetricScore", "fields": content | more})


ONE = np.ones(1).tobytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut off after 0 bytes"),
        (b"WMLR", "cut off after 4 bytes"),
        (b"GARBAGE, AND MORE OF IT", "does not begin as a message"),
        (forged({}, version=9), "version 9 of the format and this is version 1"),
        (wire.PREFIX.pack(wire.MAGIC, 1, 500) + b"{}", "cut off in its header"),
        (wire.PREFIX.pack(wire.MAGIC, 1, 2**31) + b"{}", "claims a header of 2147483648 bytes"),
        (forged(b"{not json"), "is not JSON"),
        (forged(b"[" * 100_000), "is not JSON"),
        (forged(b'{"what":"query","content":NaN}'), "holds NaN"),
        (forged(b'{"what":"query","content":1e999}'), "query is not finite"),
        (forged(b'{"what":"query","content":' + b"9" * 5000 + b"}"), "is not JSON"),
        (forged([1]), "not one of this format"),
        (forged({"what": "sums", "content": {"dict": {}}}), "kind 'sums' where a query is wanted"),
        (forged(query_of(None)), "a query is wanted"),
        (forged(query_of({"kind": "os.system", "fields": {}})), "unknown kind 'os.system'"),
        (forged(query_of({"kind": "Moments", "fields": {"intercept": True}})), "has the fields intercept, fourth"),
        (forged(query_of({"kind": "GaussHermite", "fields": {"nodes": 4}})), "a query is wanted"),
        (forged(query_of({"call": "x"})), "not written as this format"),
        (forged(query_of([[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]])), "nested more than 16 deep"),
        (forged(score(), ONE[:5]), "cut off: SymmetricScore.beta has 8 bytes and 5 are left"),
        (forged(score(), ONE + b"?"), "1 bytes more than its header says"),
        (forged(score(beta=array_of("|O8"))), r"array of '\|O8'"),
        (forged(score(beta=array_of("<f4")), ONE), "array of '<f4'"),
        (forged(score(beta=array_of(shape=(2**20, 2**20))), ONE), "is cut off"),
        (forged(score(beta=array_of(shape=(2**40,))), ONE), "impossible length"),
        (forged(score(beta=array_of(shape=(-1,))), ONE), "impossible length"),
        (forged(score(beta=array_of(shape=(1,) * 40)), ONE), "no shape of at most 8 axes"),
        (forged(score(beta=array_of(order="K")), ONE), "unknown order"),
        (forged(score(beta=array_of("<i8")), ONE), r"wrong type \(array of int64\)"),
        (forged(score(), np.array([np.inf]).tobytes()), r"beta is not finite \(inf"),
        (forged(score(s2="much"), ONE), r"s2 is of the wrong type \(str\)"),
        (forged(score(s2=2**70), ONE), "too large a whole number"),
        (forged(score(mean="x" * 2_000_000), ONE), "text of 2000000 characters"),
    ],
)
def test_what_should_not_arrive_is_refused_by_name(data, message):
    with pytest.raises(MessageError, match=message):
        unpack(data)


def test_a_damaged_message_is_refused_or_read_but_never_worse(generator):
    whole = pack(MixtureScore(np.ones((3, 2)), np.log([0.5, 0.5]), np.ones(2)))
    for place in range(len(whole)):
        with pytest.raises(MessageError):
            unpack(whole[:place])
        broken = bytearray(whole)
        broken[place] ^= 1 << int(generator.integers(8))
        with suppress(MessageError):
            unpack(bytes(broken))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (wire.Codec("sums").encode((1, 2)), "sums are wanted"),
        (wire.Codec("sums").encode({"a": 1.0}), r"sums\['a'\] must be an array"),
        (wire.Codec("sums").encode({"a": np.arange(3)}), r"sums\['a'\] must be an array"),
        (bytearray(b"WMLR"), "must come as bytes"),
    ],
)
def test_sums_are_arrays_of_numbers(data, message):
    with pytest.raises(MessageError, match=message):
        unpack_sums(data)


def test_sums_that_are_not_finite_are_not_sent():
    with pytest.raises(MessageError, match=r"sums\['h'\] is not finite \(nan at \(0, 1\)\)"):
        pack_sums({"h": np.array([[0.0, np.nan]])})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Mine(), "not a known query"),
        (SymmetricScore(np.ones(6), 1.0), r"beta has shape \(6,\), which does not fit 4 columns"),
        (SymmetricScore(np.ones((4, 1)), 1.0), r"shape \(4, 1\) where \(p\) is wanted"),
        (SymmetricScore(np.ones(4), 1.0, np.ones(5)), r"mean has shape \(5,\)"),
        (SymmetricScore(np.ones(4), 0.0), "s2 must be above 0"),
        (SymmetricScore(np.full(4, np.nan), 1.0), "beta is not finite"),
        (SymmetricScore(np.ones(4), np.nan), "s2 is not finite"),
        (MixtureScore(np.ones((4, 2)), np.zeros(3), np.ones(3)), r"log_weights has .* does not fit k = 2"),
        (FourthMoments(np.ones(3)), "does not fit 4 columns"),
        (Together((Moments(), SecondMoments(np.ones(7)))), "SecondMoments.beta"),
        (Sampled(Moments(), 0.0), "share must be above 0"),
        (Trimmed(Moments(), 1.0, 0.0), "keeps no row"),
        (Histogram(np.array([1.0, 0.0])), "must rise"),
        (SymmetricMinimax(np.ones(4), np.ones((4, 2)), 1.0, GaussHermite(10**9)), "from 1 to 512 nodes"),
        (SymmetricMinimax(np.ones(4), np.ones((4, 2)), 1.0, Drawn(0, 10**9)), "from 1 to 4096 samples"),
        (SymmetricMinimax(np.ones(4), np.ones((4, 3)), 1.0, GaussHermite(4)), "3 columns where 2 are wanted"),
        (Minimax(np.ones((4, 2)), np.ones((4, 3)), np.zeros(2), np.ones(2), 1.0, GaussHermite(4)), "where 4 are"),
        (LocalSteps(MINIMAX, 10**7, 0.1, 0.1, 1.0, np.ones((4, 2))), "at most 1000"),
        (LocalSteps(MINIMAX, 2, 0.1, 0.1, 1.0, np.ones((4, 3))), "reference has shape"),
        (MixtureLikelihood(np.ones((4, 2)), np.zeros(2), -np.ones(2)), "s2 must be above 0"),
    ],
)  # fmt: skip
def test_an_agent_looks_at_a_query_first(query, message):
    with pytest.raises(MessageError, match=message):
        check_query(query, 4)


def test_an_agent_looks_at_features_too():
    phi = Described.of(StandardScaler().fit(np.eye(3)))
    check_query(Mapped(phi, SymmetricScore(np.ones(3), 1.0)), 3)
    with pytest.raises(MessageError, match="Mapped does not fit 4 columns"):
        check_query(Mapped(phi, SymmetricScore(np.ones(3), 1.0)), 4)
    with pytest.raises(MessageError, match="does not fit 3 columns"):
        check_query(Mapped(phi, SymmetricScore(np.ones(6), 1.0)), 3)
    with pytest.raises(MessageError, match="Mapped does not fit"):
        check_query(Mapped(Described("{}", ()), SymmetricScore(np.ones(3), 1.0)), 3)


def test_an_agent_does_not_fill_its_memory_for_a_query():
    huge = ObservedInformation(np.ones((4, 5000)), np.full(5000, 1 / 5000), np.ones(5000))
    with pytest.raises(MessageError, match="asks for 1799910003 numbers"):
        check_query(huge, 4)


def rows_of(count, grouped=False):
    generator = np.random.default_rng(count)
    X, y = generator.standard_normal((count, 4)), generator.standard_normal(count)
    return Rows(X, y, None, np.zeros(1, dtype=np.int64) if grouped else None, np.arange(count))


QUERY = Together((Moments(True, True), MixtureScore(np.ones((5, 2)), np.log([0.5, 0.5]), np.ones(2), grams=True)))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_right_answer_is_taken(count, grouped):
    check_answer(QUERY.answer(rows_of(count, grouped)), QUERY, 4, count)
    sampled = Sampled(QUERY, 0.5, 1)
    check_answer(sampled.answer(rows_of(count)), sampled, 4, count)


def test_an_agent_without_rows_in_a_sample_answers_nothing_but_zeros():
    candidates = CandidateScores(np.ones((4, 2)), np.ones((5, 3, 2)), np.full((5, 3), 1 / 3), np.ones((5, 3)))
    candidates = replace(candidates, family=Student(4.0))
    lengths = SymmetricLengths(np.ones(4), np.ones(3), np.ones(3))
    others = (FourthMoments(np.ones(4)), SymmetricResiduals(np.ones(4), 1.0), Histogram(np.arange(3.0)))
    for query in (QUERY, candidates, lengths, *others):
        for grouped in (False, True):
            rows = rows_of(3, grouped).take(np.zeros(3, dtype=bool))
            answer = query.answer(rows)
            check_answer(answer, Sampled(query, 0.5), 4, 3)
            assert all(not np.any(value) for value in answer.values())


def put(name, value):
    def change(sums):
        sums[name] = value

    return change


def times(name, factor):
    def change(sums):
        sums[name] = sums[name] * factor

    return change


def at(name, place, value):
    def change(sums):
        sums[name] = sums[name].copy()
        sums[name][place] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda sums: sums.pop("0/yy"), "lacks '0/yy'"),
        (put("extra", np.ones(1)), "has 'extra', which was not asked for"),
        (put("0/xy", np.ones(3)), r"sums\['0/xy'\] has shape \(3,\) where \(5,\) is wanted"),
        (at("0/xy", 2, np.nan), "not finite"),
        (put("0/yy", np.array(1e29)), r"holds 1e\+29, larger than"),
        (put("0/yy", np.array(-1.0)), "cannot be negative"),
        (put("0/rows", np.array(8.0)), "counts 8 rows where the agent has 7"),
        (put("0/weight", np.array(1e6)), "counts 1000000 rows where the agent has 7"),
        (times("1/mass", 3.0), r"counts 21 rows where the agent has 7"),
        (times("1/units", 3.0), "more units than the 7 rows"),
        (at("0/gram", (0, 1), 5.0), "gram'] is not symmetric"),
        (times("0/gram", -1.0), "not positive semi-definite"),
        (put("0/fourth", np.diag([1.0, 1.0, 1.0, 1.0, -1e-3])), "not positive semi-definite"),
        (put("0/gram", np.ones((5, 5)) + np.eye(5)[::-1] * 9), "not positive semi-definite"),
        (times("1/grams", -1.0), "not positive semi-definite"),
    ],
)
def test_a_server_looks_at_an_answer_first(change, message):
    sums = QUERY.answer(rows_of(7))
    change(sums)
    with pytest.raises(MessageError, match=message):
        check_answer(sums, QUERY, 4, 7)


def test_a_bound_of_ones_own():
    sums = QUERY.answer(rows_of(7))
    with pytest.raises(MessageError, match="larger than 5"):
        check_answer(sums, QUERY, 4, 7, largest=5.0)
