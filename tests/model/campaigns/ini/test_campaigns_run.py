"""Campaign files of the shapes that aMLLibrary's users have run, from file to prediction.

Each file uses options in a combination of its own. All run on one made-up table.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.model.campaigns.sources import load_campaign

PRIORS = """
hyperparameter_tuning = Hyperopt
hyperopt_max_evals = 3
hyperopt_save_interval = 2
"""
FILES = {
    "grid with an inverse, a section out of use and comments": """
        [General]
        run_num = 1
        techniques = ['XGBoost']
        hp_selection = KFold
        validation = HoldOut
        folds = 3
        hold_out_ratio = 0.2
        y = "seconds"

        [DataPreparation]
        input_path = "jobs.csv"
        inverse = ['workers']

        #[FeatureSelection]
        #method = "SFS"

        [LRRidge]
        alpha = [0.02, 0.1]

        [XGBoost]
        min_child_weight = [1]
        gamma = [0.1]
        n_estimators = [20]
        learning_rate = [0.2]  #['loguniform(0.01,1)']
        max_depth = [9]
        lambda = [1]
        alpha = [0]
    """,
    "forward selection with most techniques": """
        [General]
        techniques = ['LRRidge', 'DecisionTree', 'NNLS', 'RandomForest', 'SVR', 'Dummy']
        hp_selection = KFold
        validation = HoldOut
        folds = 3
        hold_out_ratio = 0.2
        y = "seconds"

        [DataPreparation]
        input_path = "jobs.csv"
        skip_columns = ["machine"]

        [FeatureSelection]
        method = "SFS"
        max_features = 2
        folds = 3

        [LRRidge]
        alpha = [0.1]
        [DecisionTree]
        criterion = ['mse']
        max_depth = [3]
        max_features = ['auto']
        min_samples_split = [0.01]
        min_samples_leaf = [0.01]
        [NNLS]
        fit_intercept = [True]
        [RandomForest]
        n_estimators = [5]
        criterion = ['mae']
        max_depth = [3]
        max_features = ['auto']
        min_samples_split = [0.1]
        min_samples_leaf = [1]
        [SVR]
        C = [1]
        epsilon = [0.05]
        gamma = [1e-4]
        kernel = ['linear']
        degree = [2]
    """,
    "priors": f"""
        [General]
        techniques = ['XGBoost', 'LRRidge']
        hp_selection = KFold
        validation = HoldOut
        folds = 3
        hold_out_ratio = 0.2
        y = seconds
        {PRIORS}
        [DataPreparation]
        input_path = jobs.csv

        [LRRidge]
        alpha = ['loguniform(0.01,1)']
        [XGBoost]
        min_child_weight = ['quniform(1,1.01,1)']
        gamma = ['loguniform(0.1,1)']
        n_estimators = ['quniform(10,20,10)']
        learning_rate = ['loguniform(0.01,1)']
        max_depth = ['quniform(2,6,2)']
    """,
    "priors and forward selection": f"""
        [General]
        techniques = ['LRRidge']
        hp_selection = KFold
        validation = HoldOut
        folds = 3
        hold_out_ratio = 0.2
        y = seconds
        {PRIORS}
        [DataPreparation]
        input_path = jobs.csv
        inverse = ['workers']

        [FeatureSelection]
        method = "SFS"
        min_features = 1
        max_features = 3
        folds = 3

        [LRRidge]
        alpha = ['loguniform(0.01,1)']
    """,
    "interpolation with a step": """
        [General]
        techniques = ['LRRidge']
        hp_selection = All
        validation = Interpolation
        interpolation_columns = {"size_gb": 2}
        y = "seconds"

        [DataPreparation]
        input_path = "jobs.csv"
        log = ['workers']

        [LRRidge]
        alpha = [0.1]
    """,
    "interpolation with a list": """
        [General]
        techniques = ['LRRidge']
        hp_selection = HoldOut
        hold_out_ratio = 0.25
        validation = Interpolation
        interpolation_columns = {"workers": [2, 4]}
        y = "seconds"

        [DataPreparation]
        input_path = "jobs.csv"

        [LRRidge]
        alpha = [0.1]
    """,
    "extrapolation with all products": """
        [General]
        run_num = 2
        techniques = ['SVR', 'XGBoost']
        hp_selection = HoldOut
        hold_out_ratio = 0.2
        validation = Extrapolation
        extrapolation_columns = {"size_gb": 20}
        y = "seconds"

        [DataPreparation]
        input_path = "jobs.csv"
        inverse = [*]
        product_max_degree = inf
        use_columns = ["workers", "size_gb"]

        [SVR]
        C = [1, 10]
        epsilon = [0.05]
        gamma = [1e-4]
        kernel = ['linear', 'rbf']
        degree = [2]
        [XGBoost]
        min_child_weight = [1]
        gamma = [0]
        n_estimators = [20]
        learning_rate = [0.1]
        max_depth = [1, 5]
    """,
    "normalization, products and forward selection": """
        [General]
        techniques = ['LRRidge', 'DecisionTree']
        hp_selection = KFold
        folds = 3
        validation = HoldOut
        hold_out_ratio = 0.2
        y = "seconds"

        [DataPreparation]
        input_path = "jobs.csv"
        inverse = ["workers"]
        product_max_degree = 2
        skip_columns = ["machine"]
        normalization = True

        [FeatureSelection]
        method = "SFS"
        max_features = 1
        folds = 3

        [LRRidge]
        alpha = [0.01, 1]
        [DecisionTree]
        criterion = ['mse', 'friedman_mse', 'mae']
        max_depth = [3]
        max_features = ['auto', 'sqrt', 'log2']
        min_samples_split = [0.01]
        min_samples_leaf = [0.05]
    """,
    "importance selection and runs": """
        [General]
        run_num = 2
        techniques = ['LRRidge']
        hp_selection = KFold
        validation = HoldOut
        hold_out_ratio = 0.2
        folds = 3
        y = "seconds"

        [DataPreparation]
        input_path = "jobs.csv"
        inverse = [*]
        product_max_degree = 3
        product_interactions_only = True

        [LRRidge]
        alpha = [0.1, 0.2]

        [FeatureSelection]
        method = "XGBoost"
        max_features = 2
        XGBoost_tolerance = 0.4
    """,
    "stepwise on all rows": f"""
        [General]
        techniques = ['Stepwise']
        hp_selection = All
        validation = All
        y = "seconds"
        {PRIORS}
        [DataPreparation]
        input_path = "jobs.csv"

        [Stepwise]
        p_to_add = ['loguniform(0.001,0.05)']
        p_to_remove = ['loguniform(0.1,1)']
        fit_intercept = [True]
        max_iter = [100]
    """,
    "Ernest's features of renamed columns": """
        [General]
        techniques = ['NNLS']
        hp_selection = KFold
        validation = KFold
        folds = 3
        y = "seconds"

        [DataPreparation]
        input_path = "jobs.csv"
        rename_columns = {"workers": "cores", "size_gb": "datasize"}
        ernest = True

        [NNLS]
        fit_intercept = [True, False]
    """,
    "a network": """
        [General]
        techniques = ['NeuralNetwork']
        hp_selection = HoldOut
        validation = HoldOut
        hold_out_ratio = 0.2
        y = "seconds"

        [DataPreparation]
        input_path = "jobs.csv"
        normalization = True

        [NeuralNetwork]
        n_features = [[4, 2], [6]]
        dropouts = [0.1]
        activation = ['relu']
        optimizer = ['adam']
        learning_rate = [0.01]
        loss = ['mse']
        batch_size = [8]
        epochs = [5]
    """,
    "chosen products without large runs": """
        [General]
        techniques = ['LRRidge']
        hp_selection = All
        validation = KFold
        folds = 3
        y = "seconds"
        save_training_regressors = True

        [DataPreparation]
        input_path = "jobs.csv"
        inverse = ["workers"]
        selected_products = ['inverse_workers size_gb', 'size_gb size_gb']
        skip_rows = {'size_gb': 30}
        categorical_columns = ["machine"]

        [LRRidge]
        alpha = [0.1]
    """,
}


def jobs():
    """Return runs whose time follows a law that each of the files can describe roughly."""
    random = np.random.default_rng(5)
    frame = pd.DataFrame(
        [(w, s, m) for w in (1, 2, 4, 8) for s in (4, 10, 20, 40) for m in ("a", "b")],
        columns=["workers", "size_gb", "machine"],
    )
    noise = random.uniform(0.98, 1.02, len(frame))
    frame["seconds"] = (5 + 3 * frame["size_gb"] / frame["workers"]) * noise
    return frame


@pytest.mark.parametrize("name", FILES)
def test_file_is_fitted_and_the_model_predicts(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jobs().to_csv("jobs.csv", index=False)
    lines = (line.strip() for line in FILES[name].splitlines())
    Path("campaign.ini").write_text("\n".join(lines))
    campaign, _, warnings = load_campaign("campaign.ini")
    fit = foretell.fit_model("campaign.ini", output="out")
    assert not warnings
    assert set(fit.models) == set(campaign.techniques), "every technique gives a model"
    new = pd.DataFrame([{"workers": 2, "size_gb": 10, "machine": "a"}])
    predicted = foretell.load_model("out").predict(new)
    assert predicted.shape == (1,)
    assert predicted[0] > 0
