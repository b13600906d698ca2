"""Banyan plans, verifies and predicts collectives on any network fabric.

    >>> import banyan
    >>> plan = banyan.plan("allgather", "dgx-h100:8")
    >>> plan.is_optimal, bool(plan.verify())
    (True, True)

Fabric describes a network, plan() makes a Plan with its Bound, predict() and sweep() simulate, predict_step()
predicts training, predict_job() traces. The program `banyan` does the same, with the same words; its files can be read
here and the other way round.
"""
from ._bound import Bound, Cut, LinkLengths, Potential, WeightedCut
from ._core import JobPrediction, StepPrediction, __version__
from ._error import Error
from ._fabric import Fabric, FabricSpec, Link, Node, list_fabrics
from ._jobs import PredictedJob, StepParts, WhatIf, list_job_options, predict_job
from ._options import Option
from ._plan import (ComparedPlanner, Comparison, Export, Hop, Limit, LinkChange, Plan, Planner, Repair, Tree, Verdict,
                    bound, compare, list_planners, plan, verify)
from ._predict import BusyLink, PredictedPlan, Prediction, Sweep, predict, sweep
from ._step import (CompressedBucket, StageMemory, StepCompression, TriedCompression, list_train_options,
                    predict_step)

__all__ = [
    "Bound", "BusyLink", "ComparedPlanner", "Comparison", "CompressedBucket", "Cut", "Error", "Export", "Fabric",
    "FabricSpec", "Hop", "JobPrediction", "Limit", "Link", "LinkChange", "LinkLengths", "Node", "Option", "Plan",
    "Planner", "Potential", "PredictedJob", "PredictedPlan", "Prediction", "Repair", "StageMemory", "StepCompression",
    "StepParts", "StepPrediction", "Sweep", "Tree", "TriedCompression", "Verdict", "WeightedCut", "WhatIf",
    "__version__", "bound", "compare", "list_fabrics", "list_job_options", "list_planners", "list_train_options",
    "plan", "predict", "predict_job", "predict_step", "sweep", "verify",
]
