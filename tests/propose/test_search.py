"""The search: default order without evidence, evidence and transfer with it, and never the same kernel twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kope.derive import capture_graph, emit, first_kernel
from kope.derive.graph import traits
from kope.derive.moves import MOVES
from kope.derive.nest_moves import NEST_FIELDS, NEST_MOVES
from kope.model import (
    Attempt,
    Candidate,
    CaseResult,
    Converged,
    Fingerprint,
    MoveEvidence,
    Outcome,
    Proposal,
    Recall,
    Stage,
    State,
    Task,
    Verdict,
)
from kope.propose.evidence import Belief, believed, prior_gain, similarity
from kope.propose.search import SearchProposer, dtypes
from kope.propose.transfer import changes, paths
from tests.derive.operators import shipped, small_task

TWIN = Fingerprint("twin", "twin:910b2:1", "g++", "1")
ORDER = tuple(move.name for move in MOVES)


def state_of(
    task: Task, history: tuple[Attempt, ...] = (), moves: tuple[MoveEvidence, ...] = (), seed: int = 0
) -> State:
    verified = [a for a in history if a.outcome.verdict is Verdict.VERIFIED]
    promoted = [a for a in history if a.promoted]
    return State(
        task=task,
        fingerprint=TWIN,
        seed=seed,
        iteration=len(history) + 1,
        incumbent=promoted[-1] if promoted else None,
        baseline=verified[0] if verified else None,
        last=history[-1] if history else None,
        history=history,
        recall=Recall(moves=moves),
    )


def attempted(state: State, proposal: Proposal, time_us: float | None) -> Attempt:
    """What the loop would make of a proposal whose only case takes this long; None: it gave wrong values."""
    before = state.incumbent.outcome.times_us["case"] if state.incumbent else None
    first = state.baseline.outcome.times_us["case"] if state.baseline else time_us
    parent = next((a for a in state.history if a.id == proposal.parent_id), None)
    verdict = Verdict.FAILED if time_us is None else Verdict.VERIFIED
    cases = () if time_us is None else (CaseResult("case", True, (time_us,), 1.0, 0.1, {}),)
    speedup = 0.0 if time_us is None or first is None else first / time_us
    return Attempt(
        id=f"a{state.iteration}",
        session_id="s",
        iteration=state.iteration,
        task_name=state.task.name,
        task_digest=state.task.digest,
        candidate=Candidate.of(proposal.source) if proposal.source is not None else None,
        proposal=proposal,
        outcome=Outcome(Stage.VERIFY if time_us is None else Stage.PROFILE, verdict, cases=cases),
        fingerprint=TWIN,
        proposer="search",
        speedup=speedup,
        step_ratio=0.0 if time_us is None else speedup / parent.speedup if parent and parent.speedup else 1.0,
        promoted=time_us is not None and (before is None or time_us < before / 1.01),
    )


def session(
    task: Task, times_us: list[float | None], moves: tuple[MoveEvidence, ...] = (), seed: int = 0
) -> list[Attempt]:
    """Run the search against a list of times."""
    history: tuple[Attempt, ...] = ()
    for time_us in times_us:
        state = state_of(task, history, moves, seed)
        history = (*history, attempted(state, SearchProposer().propose(state), time_us))
    return list(history)


def evidence_of(history: list[Attempt], task: Task) -> tuple[MoveEvidence, ...]:
    """A finished session as another task's memory would hand it out."""
    words = traits(capture_graph(task), dtypes(task))
    known = {attempt.id: attempt for attempt in history}
    found = []
    for attempt in history[1:]:
        parent = known[attempt.proposal.parent_id or ""]
        found.append(
            MoveEvidence(
                f"x-{task.name}-{attempt.id}", f"x-{task.name}-{parent.id}", task.name, words, attempt.proposal.move,
                parent.proposal.plan, attempt.proposal.plan, attempt.outcome.ok, True, attempt.step_ratio,
                attempt.speedup, attempt.step_ratio, "", attempt.promoted,
            )
        )  # fmt: skip
    return tuple(found)


def test_the_first_proposal_is_the_derived_kernel() -> None:
    task = shipped("exp")
    proposal = SearchProposer().propose(state_of(task))
    graph, schedule, source = first_kernel(task)
    assert (proposal.source, proposal.move, proposal.plan) == (source, "draft", schedule.to_plan())
    assert proposal.parent_id is None
    assert proposal.traits == traits(graph, dtypes(task))


def test_without_evidence_and_gains_the_default_order_comes_out() -> None:
    history = session(shipped("layer_norm"), [10.0] * 12)
    tried = [attempt.proposal.move for attempt in history[1:]]
    assert tried == [name for name in ORDER if name in tried]
    assert all(attempt.proposal.parent_id == "a1" for attempt in history[1:])


def test_no_kernel_is_proposed_twice_and_the_search_ends() -> None:
    task = small_task("return x * 2.0", [{"x": (4, 8)}, {"x": (2, 3, 17)}])
    history: list[Attempt] = []
    with pytest.raises(Converged):
        for _ in range(60):
            history = session(task, [10.0] * (len(history) + 1))
    assert len(history) > 5
    assert len({attempt.candidate.id for attempt in history if attempt.candidate}) == len(history)


def test_what_gained_is_tried_again_at_once() -> None:
    history = session(shipped("exp"), [10.0, 10.0, 7.0, 5.0])
    assert [attempt.proposal.move for attempt in history] == ["draft", "double-buffer", "larger-tile", "larger-tile"]
    assert history[3].proposal.parent_id == "a3"


def test_a_wrong_kernel_is_never_the_parent() -> None:
    history = session(shipped("exp"), [10.0, None, 8.0, 7.0])
    assert [attempt.proposal.parent_id for attempt in history] == [None, "a1", "a1", "a3"]


def test_a_first_kernel_that_fails_is_left_by_moves() -> None:
    history = session(shipped("exp"), [None, 9.0])
    assert history[1].proposal.move != "draft"
    assert history[1].promoted


def test_the_answer_depends_on_state_and_seed_alone() -> None:
    task, other = shipped("sigmoid"), shipped("exp")
    moves = evidence_of(session(other, [10.0, 6.0, 5.0, 5.5]), other)
    runs = [[a.proposal for a in session(task, [10.0, 5.0, 5.0, 5.0], moves, seed)] for seed in (3, 3)]
    assert runs[0] == runs[1]


def test_a_proven_path_is_taken_over_in_one_attempt() -> None:
    other, task = shipped("rms_norm"), shipped("layer_norm")
    learned = session(other, [10.0, 6.0, 4.0, 3.0, 2.9, 3.1])
    moves = evidence_of(learned, other)
    proposal = session(task, [10.0, 2.0], moves)[1].proposal
    best = learned[4].proposal.plan
    assert proposal.move == "transfer:rms_norm"
    assert {name: proposal.plan[name] for name in ("buffers", "tile")} == {
        name: best[name] for name in ("buffers", "tile")
    }
    assert set(proposal.used) == {"x-rms_norm-a2", "x-rms_norm-a3", "x-rms_norm-a4", "x-rms_norm-a5"}
    assert "3.45x on rms_norm" in proposal.thought


def test_only_what_a_step_improved_is_taken_over() -> None:
    other = shipped("rms_norm")
    learned = session(other, [10.0, 6.0, 10.0, 10.0])
    path = paths(evidence_of(learned, other), shipped("layer_norm"), ("rows",))[0]
    assert [changes(step, path) for step in path.steps] == [{"buffers": 2}]


def test_a_transferred_plan_is_made_to_fit() -> None:
    other, task = shipped("exp"), shipped("apply_adam_w")
    learned = session(other, [10.0, 6.0, 5.0, 4.0, 3.0])
    assert learned[-1].proposal.plan["tile"] > 2048
    transferred = [a for a in session(task, [10.0, 5.0], evidence_of(learned, other)) if "transfer" in a.proposal.move]
    assert transferred[0].proposal.plan["buffers"] == 2
    assert transferred[0].proposal.source is not None


def test_a_transfer_that_is_too_much_leaves_out_what_gained_least() -> None:
    other, task = shipped("rms_norm"), shipped("layer_norm")
    rewrites = ["reciprocal-rows"]
    steps = (("tile", 4096, 1.5), ("buffers", 2, 1.3), ("columns", "resident", 1.02), ("rewrites", rewrites, 1.05))

    def transferred(gain_of_columns: float) -> Proposal:
        plan, found = first_kernel(other)[1].to_plan(), []
        words = traits(capture_graph(other), dtypes(other))
        for k, (name, value, ratio) in enumerate(steps):
            before, plan = plan, plan | {name: value}
            ratio = gain_of_columns if name == "columns" else ratio
            parent = f"x{k - 1}" if k else None
            kept = (before, plan, True, True, ratio, 1.5 + k, ratio, "", True)
            found.append(MoveEvidence(f"x{k}", parent, "rms_norm", words, f"move-{name}", *kept))
        return session(task, [10.0, 5.0], tuple(found))[1].proposal

    little, much = transferred(1.02), transferred(1.9)
    names = ("tile", "columns", "buffers")
    assert [little.plan[name] for name in names] == [4096, "reload", 2]
    assert "move-columns" not in little.thought
    assert [much.plan[name] for name in names] == [4096, "resident", 1]
    assert (set(little.used), set(much.used)) == ({"x0", "x1", "x3"}, {"x0", "x2", "x3"})


def test_what_was_proven_useless_elsewhere_waits() -> None:
    other, task = shipped("exp"), shipped("sigmoid")
    words = traits(capture_graph(other), dtypes(other))
    plan = first_kernel(other)[1].to_plan()
    useless = tuple(
        MoveEvidence(f"x{k}", "x", "exp", words, "double-buffer", plan, plan, True, True, 1.0, 1.0, 1.0, "", False)
        for k in range(4)
    )
    tried = [a.proposal.move for a in session(task, [10.0] * 5, useless)]
    assert tried == ["draft", "larger-tile", "reuse-buffers", "aligned-copy", "double-buffer"]


def test_times_of_other_hardware_say_only_whether_it_works() -> None:
    slow = MoveEvidence("x", "p", "exp", (), "larger-tile", {}, {}, True, False, 0.2, 0.2, 0.2, "", False)
    belief = Belief("larger-tile", 0.1)
    before = belief.expected_gain
    belief.add(slow, 1.0)
    assert belief.expected_gain > before
    assert belief.weight == 0.0


def test_experience_that_misled_before_counts_for_less() -> None:
    other, task = shipped("rms_norm"), shipped("softmax")
    moves = evidence_of(session(other, [10.0, 6.0, 4.0, 3.0, 2.9]), other)
    trusted = session(task, [10.0, 9.0], moves)[1].proposal
    retired = session(task, [10.0, 9.0], tuple(replace(item, value=0.0) for item in moves))[1].proposal
    assert trusted.move == "transfer:rms_norm"
    assert (retired.move, retired.used) == (session(task, [10.0, 9.0])[1].proposal.move, ())


def test_what_was_gained_is_what_was_used() -> None:
    """A move is made because of what gained by it, in spite of what did not; credit goes to the former."""
    other, task = shipped("exp"), shipped("sigmoid")
    words, plan = traits(capture_graph(other), dtypes(other)), first_kernel(other)[1].to_plan()
    useless = MoveEvidence("no", "yes", "exp", words, "larger-tile", plan, plan, True, True, 1.0, 1.0, 1.0, "", False)
    helpful = replace(useless, experience_id="yes", parent_experience_id="x", step_ratio=1.5)
    proposal = session(task, [10.0, 9.0], (helpful, useless))[1].proposal
    assert (proposal.move, proposal.used) == ("larger-tile", ("yes",))


@pytest.mark.parametrize("liar", [4, 5])
def test_a_large_gain_that_nobody_went_on_from_changes_nothing_of_what_is_taken_over(liar: int) -> None:
    """A search goes on from the best it has: what was twice as fast and left alone is more likely wrong than right."""
    other, task = shipped("rms_norm"), shipped("layer_norm")
    moves = evidence_of(session(other, [10.0, 6.0, 4.0, 4.1, 4.2, 4.3]), other)
    lie = moves[liar - 1]
    planted = replace(lie, experience_id="lie", step_ratio=2.0, speedup=2.0 * (moves[1].speedup or 0.0), promoted=True)
    true = [attempt.proposal for attempt in session(task, [10.0, 2.0, 2.1], moves)]
    told = [attempt.proposal for attempt in session(task, [10.0, 2.0, 2.1], (*moves, planted))]
    assert [(each.move, each.plan) for each in told[:2]] == [(each.move, each.plan) for each in true[:2]]
    assert "lie" not in told[1].used
    built_on = replace(moves[1], experience_id="more", parent_experience_id="lie", step_ratio=1.0, speedup=1.0)
    assert believed((*moves, planted, built_on))[-2] == planted


def test_a_small_last_gain_is_believed_without_proof() -> None:
    evidence = evidence_of(session(shipped("exp"), [10.0, 9.5]), shipped("exp"))
    assert believed(evidence) == list(evidence)


def test_shuffled_outcomes_are_survived() -> None:
    other, task = shipped("rms_norm"), shipped("softmax")
    moves = evidence_of(session(other, [10.0, 6.0, 4.0, 3.0, 2.9, 3.1]), other)
    shuffled = tuple(
        replace(item, step_ratio=donor.step_ratio, speedup=donor.speedup, works=donor.works, promoted=donor.promoted)
        for item, donor in zip(moves, moves[::-1], strict=True)
    )
    assert len(session(task, [10.0, 9.0, 9.0, 8.0, 8.0, 8.0], shuffled)) == 6


def test_evidence_with_foreign_plans_is_survived() -> None:
    task = shipped("exp")
    strange = MoveEvidence(
        "x", None, "other", ("rows",), "edit", {}, {"tile": "wide"}, True, True, 3.0, 3.0, 3.0, "", True
    )
    assert session(task, [10.0, 9.0], (strange,))[1].proposal.source is not None


def test_a_reference_that_cannot_be_captured_is_said_once() -> None:
    task = small_task("return np.linalg.inv(x)", [{"x": (4, 4)}])
    state = state_of(task)
    proposal = SearchProposer().propose(state)
    assert proposal.source is None
    assert "np.inv has no lowering yet" in proposal.reason
    with pytest.raises(Converged):
        SearchProposer().propose(state_of(task, (attempted(state, proposal, None),)))


def test_the_default_order_names_every_move_once() -> None:
    assert len(set(ORDER)) == len(MOVES)
    assert len({move.name for move in NEST_MOVES}) == len(NEST_MOVES)
    gains = [prior_gain(at, len(ORDER)) for at in range(len(ORDER))]
    assert gains == sorted(gains, reverse=True)


def test_similarity_looks_at_structure_not_at_dtypes() -> None:
    assert similarity(("rows", "sum", "dtype:float16"), ("rows", "sum", "dtype:float32")) == 1.0
    assert similarity(("rows", "sum"), ("rows", "amax")) == pytest.approx(1 / 3)


def test_the_search_goes_on_from_its_own_best_when_somebody_elses_kernel_leads() -> None:
    task = shipped("exp")
    history = tuple(session(task, [10.0, 8.0]))
    state = state_of(task, history)
    foreign = replace(
        history[1], id="tell", proposal=Proposal("// by hand", "edit"), candidate=Candidate.of("// by hand")
    )
    proposal = SearchProposer().propose(replace(state, incumbent=foreign))
    assert proposal.parent_id == "a2"
    assert proposal.source != emit(task, capture_graph(task), first_kernel(task)[1])


def test_kernel_of_somebody_else_does_not_stand_for_the_first_one() -> None:
    state = state_of(shipped("exp"))
    given = Proposal("// somebody's kernel\n", "given")
    after = state_of(state.task, (attempted(state, given, 5.0),))
    proposal = SearchProposer().propose(after)
    assert (proposal.move, proposal.parent_id, bool(proposal.plan)) == ("draft", None, True)


def down_columns(body: str = "return x.max(axis=0)") -> Task:
    return replace(small_task(body, [{"x": (40, 70)}, {"x": (300, 9)}]), fixed_shapes=True)


def test_a_kernel_of_loop_nests_is_searched_by_moves_of_its_own() -> None:
    history = session(down_columns(), [10.0, 5.0, 5.0, 5.0])
    moves = [attempt.proposal.move for attempt in history]
    assert moves[:2] == ["draft", "split-reduction"]
    assert len(set(moves)) == len(moves)
    assert set(moves[1:]) <= {move.name for move in NEST_MOVES}
    assert {attempt.proposal.parent_id for attempt in history[2:]} == {"a2"}
    first, later = history[0].proposal.plan, history[-1].proposal.plan
    assert {name for name in later if later[name] != first[name]} <= NEST_FIELDS


def test_loop_nests_are_not_proposed_where_other_shapes_may_come() -> None:
    proposal = SearchProposer().propose(state_of(replace(down_columns(), fixed_shapes=False)))
    assert proposal.source is None
    assert "say fixed_shapes = true" in proposal.reason


def test_what_led_to_the_best_nests_of_one_operator_is_taken_over_on_the_next() -> None:
    told = session(down_columns(), [10.0, 7.0, 4.0, 4.0])
    words = told[1].proposal.traits
    known = {attempt.id: attempt for attempt in told}
    moves = tuple(
        MoveEvidence(
            f"x-{a.id}", f"x-{a.proposal.parent_id}", "other", words, a.proposal.move,
            known[a.proposal.parent_id or ""].proposal.plan, a.proposal.plan, True, True, a.step_ratio, a.speedup,
            a.step_ratio, "", a.promoted,
        )
        for a in told[1:]
    )  # fmt: skip
    made = session(down_columns("return x.min(axis=0) * 2.0"), [10.0, 9.0], moves)[1].proposal
    assert (made.move, made.plan["split"]) == ("transfer:other", True)
    of_rows = session(shipped("softmax"), [10.0, 9.0], moves)[1].proposal
    assert not of_rows.move.startswith("transfer:")
