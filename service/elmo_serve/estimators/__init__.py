"""ELMo in scikit-learn: `TaskFitter` learns a scalar mix, `ElmoVectorizer` makes features.

Needs scikit-learn: `pip install 'elmo-serve[sklearn]'`.
"""

from elmo_serve.estimators.task_fitter import TaskFitter
from elmo_serve.estimators.vectorizer import ElmoVectorizer

__all__ = ["ElmoVectorizer", "TaskFitter"]
