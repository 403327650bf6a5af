"""Queues to test with: streams of classes made quickly, and random ones."""

import numpy as np

from foretell.decide.queueing.disciplines import DISCIPLINES
from foretell.decide.queueing.service.fitted import fitted_time
from foretell.decide.queueing.streams import Stream


def streams(*classes):
    """Make streams from (rate, mean, SCV), the lowest class first."""
    return [Stream(f"class {i}", r, fitted_time(m, c)) for i, (r, m, c) in enumerate(classes)]


def discipline(name, *classes):
    return DISCIPLINES.get(name)(streams(*classes))


def derivative_at_0(function, radius):
    """The first derivative by Cauchy's formula, which knows nothing of moments."""
    turns = np.exp(2j * np.pi * np.arange(32) / 32)
    return float((np.mean(function(radius * turns) / turns) / radius).real)
