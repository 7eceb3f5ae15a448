"""ELMo in scikit-learn: `TaskFitter` learns a scalar mix, `ElmoVectorizer` makes features.

Needs scikit-learn: `pip install 'elmo-serve[sklearn]'`.
"""

try:
    from elmo_serve.estimators.task_fitter import TaskFitter
    from elmo_serve.estimators.vectorizer import ElmoVectorizer
except ModuleNotFoundError as error:
    if error.name != "sklearn":
        raise
    message = "the estimators need scikit-learn: pip install 'elmo-serve[sklearn]'"
    raise ModuleNotFoundError(message, name=error.name) from error

__all__ = ["ElmoVectorizer", "TaskFitter"]
