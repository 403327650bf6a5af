"""The campaigns that are timed, as aMLLibrary files."""

from __future__ import annotations


def stereo(table: str) -> str:
    """Boosting and ridge, 20 Bayesian evaluations each."""
    return f"""
[General]
techniques = ['XGBoost', 'LRRidge']
hp_selection = KFold
folds = 5
validation = HoldOut
hold_out_ratio = 0.2
y = exec_time_ms
hyperparameter_tuning = Hyperopt
hyperopt_max_evals = 20
[DataPreparation]
input_path = {table}
inverse = ['nThreads']
product_max_degree = 2
[LRRidge]
alpha = ['loguniform(0.0001,1)']
[XGBoost]
min_child_weight = [1]
gamma = ['loguniform(0.001,10)']
n_estimators = [100]
learning_rate = ['loguniform(0.001,1)']
max_depth = [100]
lambda = [1]
alpha = [0]
"""


_RAY = """
[General]
techniques = ['LRRidge', 'XGBoost', 'DecisionTree', 'RandomForest']
hp_selection = KFold
folds = 5
validation = HoldOut
hold_out_ratio = 0.2
y = train_s
[DataPreparation]
input_path = {table}
inverse = ['n', 'j', 'num_cpus', 'num_images']
log = ['n', 'j', 'num_cpus', 'num_images']
product_max_degree = 2
[LRRidge]
alpha = [0.01, 0.1, 1]
[XGBoost]
min_child_weight = [1, 3]
gamma = [0, 1]
n_estimators = [50, 150]
learning_rate = [0.01, 0.05, 0.1]
max_depth = [1, 5, 10]
lambda = [1]
alpha = [0]
"""


def ray_reduced(table: str) -> str:
    """The Ray paper's models with 3, 72, 32 and 8 points."""
    return (
        _RAY.format(table=table)
        + """
[DecisionTree]
criterion = ['mse']
max_depth = [3, 5, 10, 20]
max_features = ['auto', 'sqrt']
min_samples_split = [0.01, 0.1]
min_samples_leaf = [0.01, 0.05]
[RandomForest]
n_estimators = [10, 50]
criterion = ['mse']
max_depth = [3, 10]
max_features = ['auto']
min_samples_split = [0.1, 0.5]
min_samples_leaf = [1]
"""
    )


_TREES = """
[DecisionTree]
criterion = ['mse', 'friedman_mse', 'mae']
max_depth = [3, 5, 10, 20]
max_features = ['auto', 'sqrt', 'log2']
min_samples_split = [0.01, 0.1, 0.2, 0.5]
min_samples_leaf = [0.01, 0.05, 0.1, 0.2, 0.3]
"""


def few_rows(table: str) -> str:
    """720 points of trees, each with its own forward selection: most of them are the same tree."""
    return (
        f"""
[General]
techniques = ['DecisionTree']
hp_selection = KFold
folds = 5
validation = HoldOut
hold_out_ratio = 0.2
y = time_s
[DataPreparation]
input_path = {table}
inverse = ['nodes']
product_max_degree = 2
[FeatureSelection]
method = SFS
max_features = 1
folds = 5
"""
        + _TREES
    )


def ray_full(table: str) -> str:
    """The Ray paper's whole Table II: 3, 72, 720 and 24 points."""
    return (
        _RAY.format(table=table)
        + _TREES
        + """
[RandomForest]
n_estimators = [10, 50, 200]
criterion = ['mae']
max_depth = [3, 10]
max_features = ['auto']
min_samples_split = [0.1, 0.5]
min_samples_leaf = [1, 4]
"""
    )


def products(table: str) -> str:
    """A table whose products to degree 3 are 3,648 features and more."""
    return f"""
[General]
techniques = ['LRRidge']
hp_selection = KFold
folds = 4
validation = HoldOut
hold_out_ratio = 0.2
y = time_s
[DataPreparation]
input_path = {table}
product_max_degree = 3
[LRRidge]
alpha = [0.1, 1]
"""


def million(table: str) -> str:
    """Ridge and boosting on a million rows."""
    return f"""
[General]
techniques = ['LRRidge', 'XGBoost']
hp_selection = HoldOut
validation = HoldOut
hold_out_ratio = 0.2
y = time_s
[DataPreparation]
input_path = {table}
[LRRidge]
alpha = [0.1, 1]
[XGBoost]
n_estimators = [50, 100]
learning_rate = [0.1, 0.3]
max_depth = [6]
min_child_weight = [1]
gamma = [0]
lambda = [1]
alpha = [0]
"""
