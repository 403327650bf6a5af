"""The kinds of problems that only a server of models has."""

from __future__ import annotations

from foretell.adapters.http.server.problems import Kind

READ_ONLY = Kind("read-only", 403, "This server does not fit models")
UNKNOWN_MODEL = Kind("unknown-model", 404, "There is no such model")
UNKNOWN_JOB = Kind("unknown-job", 404, "There is no such job")
TAKEN = Kind("taken", 409, "The name is taken")
ENDED = Kind("ended", 409, "The job has ended")
BROKEN_MODEL = Kind("broken-model", 500, "The model cannot be read")
STORAGE = Kind("storage", 500, "The model directory cannot be used")
