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
        "LRRidge": "foretell.model.techniques.ridge:RidgeTechnique",
        "NNLS": "foretell.model.techniques.nnls:NNLSTechnique",
        "Stepwise": "foretell.model.techniques.stepwise:StepwiseTechnique",
        "SVR": "foretell.model.techniques.svr:SVRTechnique",
        "DecisionTree": "foretell.model.techniques.decision_tree:DecisionTreeTechnique",
        "RandomForest": "foretell.model.techniques.random_forest:RandomForestTechnique",
        "XGBoost": "foretell.model.techniques.boosting:XGBoostTechnique",
        "NeuralNetwork": "foretell.model.techniques.neural_network:NeuralNetworkTechnique",
        "LogGP": "foretell.model.techniques.log_gp:LogGPTechnique",
        "PowerLaw": "foretell.model.techniques.power_law:PowerLawTechnique",
        "ScalingLaw": "foretell.model.techniques.scaling_law:ScalingLawTechnique",
        "LightTrees": "foretell.model.techniques.light_trees:LightTreesTechnique",
        "Hybrid": "foretell.model.techniques.hybrid:HybridTechnique",
        "Ensemble": "foretell.model.automatic.technique:EnsembleTechnique",
        "Dummy": "foretell.model.techniques.dummy:DummyTechnique",
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
