"""Judging candidates: inputs, references, comparison, and the order in which a candidate has to pass them."""

from kope.evaluate.evaluator import TaskEvaluator
from kope.evaluate.prepared import CaseLibrary, PreparedCase
from kope.evaluate.reference import ReferenceRunner
from kope.evaluate.rules import evaluator_fingerprint

__all__ = ["CaseLibrary", "PreparedCase", "ReferenceRunner", "TaskEvaluator", "evaluator_fingerprint"]
