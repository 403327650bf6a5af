"""The techniques: one file each, and one line here."""

from __future__ import annotations

from foretell.model.techniques._base import (
    Hyperparameter,
    Params,
    Regressor,
    State,
    Technique,
    TrainingRows,
    complete,
)
from foretell.registry import Registry

TECHNIQUES: Registry[Technique] = Registry(
    "technique",
    {
        "LRRidge": "foretell.model.techniques.linear.ridge:RidgeTechnique",
        "NNLS": "foretell.model.techniques.linear.nnls:NNLSTechnique",
        "Stepwise": "foretell.model.techniques.linear.stepwise:StepwiseTechnique",
        "SVR": "foretell.model.techniques.svr:SVRTechnique",
        "DecisionTree": "foretell.model.techniques.trees.decision_tree:DecisionTreeTechnique",
        "RandomForest": "foretell.model.techniques.trees.random_forest:RandomForestTechnique",
        "XGBoost": "foretell.model.techniques.trees.boosting:XGBoostTechnique",
        "NeuralNetwork": "foretell.model.techniques.neural_network:NeuralNetworkTechnique",
        "LogGP": "foretell.model.techniques.processes.log_gp:LogGPTechnique",
        "PowerLaw": "foretell.model.techniques.laws.power_law:PowerLawTechnique",
        "ScalingLaw": "foretell.model.techniques.laws.scaling_law:ScalingLawTechnique",
        "LightTrees": "foretell.model.techniques.trees.light_trees:LightTreesTechnique",
        "Hybrid": "foretell.model.techniques.laws.hybrid:HybridTechnique",
        "Ensemble": "foretell.model.automatic.bench:EnsembleTechnique",
        "Dummy": "foretell.model.techniques.linear.dummy:DummyTechnique",
    },
    group="foretell.techniques",
)

__all__ = [
    "TECHNIQUES",
    "Hyperparameter",
    "Params",
    "Regressor",
    "State",
    "Technique",
    "TrainingRows",
    "complete",
]
