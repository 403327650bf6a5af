"""Event logs as Spark 4 writes them, made up: only what their readers use."""

import json
from dataclasses import dataclass, field


@dataclass
class MadeLog:
    """Events of one application, one job after the other; times are seconds."""

    version: str = "4.0.1"
    name: str = "reports"
    cores: tuple[int, ...] = (2,)
    start_s: float = 1_700_000_000.0
    events: list = field(default_factory=list)
    n_jobs: int = 0
    n_stages: int = 0

    def __post_init__(self):
        self.add("LogStart", **{"Spark Version": self.version})
        for i, n in enumerate(self.cores):
            self.add("ExecutorAdded", **{
                "Timestamp": ms(self.start_s), "Executor ID": str(i),
                "Executor Info": {"Host": "h", "Total Cores": n, "Log Urls": {}},
            })  # fmt: skip
        self.add("EnvironmentUpdate", **{"Spark Properties": {"spark.master": "local[2]"}})
        self.add("ApplicationStart", **{
            "App Name": self.name, "App ID": "app-1", "Timestamp": ms(self.start_s), "User": "u",
        })  # fmt: skip

    def add(self, event, **values):
        self.events.append({"Event": f"SparkListener{event}", **values})

    def job(self, at_s, stages, *, after_s=0.5, gap_s=0.25, is_done=True, **properties):
        """Run stages one after the other, each a list of tasks (start and length in its stage)."""
        number, first = self.n_jobs, self.n_stages
        self.n_jobs += 1
        self.n_stages += len(stages)
        self.add("JobStart", **{
            "Job ID": number, "Submission Time": ms(at_s), "Stage Infos": [],
            "Stage IDs": list(range(first, self.n_stages)), "Properties": properties,
        })  # fmt: skip
        moment_s = at_s + after_s
        for stage, tasks in enumerate(stages, start=first):
            for start_s, length_s in tasks:
                self.task(stage, moment_s + start_s, moment_s + start_s + length_s)
            moment_s += max(start + length for start, length in tasks) + gap_s
        result = "JobSucceeded" if is_done else "JobFailed"
        self.add("JobEnd", **{
            "Job ID": number, "Completion Time": ms(moment_s), "Job Result": {"Result": result},
        })  # fmt: skip
        return moment_s

    def task(self, stage, start_s, end_s, reason="Success", read_bytes=0):
        self.add("TaskEnd", **{
            "Stage ID": stage, "Stage Attempt ID": 0, "Task Type": "ResultTask",
            "Task End Reason": {"Reason": reason},
            "Task Info": {"Task ID": 0, "Launch Time": ms(start_s), "Finish Time": ms(end_s)},
            "Task Metrics": {"Input Metrics": {"Bytes Read": read_bytes, "Records Read": 1}},
        })  # fmt: skip

    def end(self, at_s):
        self.add("ApplicationEnd", **{"Timestamp": ms(at_s)})
        return self

    @property
    def lines(self):
        return [json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in self.events]

    @property
    def content(self):
        return b"".join(self.lines)


def ms(seconds):
    return round(seconds * 1000)
