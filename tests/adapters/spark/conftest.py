"""A real Spark for the tests of a module; without Java or pyspark they are skipped."""

import json
import shutil
import tempfile
from itertools import count
from pathlib import Path

import pytest

from foretell.adapters.dispatcher.engines import Setting
from foretell.adapters.dispatcher.engines.spark import SparkEngine
from foretell.adapters.dispatcher.jobs import Job
from foretell.adapters.spark.installation import check_spark
from foretell.errors import UsageError

PATIENCE_S = 120
FUNCTIONS = Path(__file__).with_name("functions.py")
EXAMPLE = Path(__file__).parents[3] / "examples" / "queue" / "word_counts.py"


#: Java compiles less, and so starts in half the time.
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class Desk:
    """An engine with a folder of its own, and what its jobs said."""

    def __init__(self, folder, slots=2, **options):
        self.folder = folder
        for file in (FUNCTIONS, EXAMPLE):
            shutil.copy(file, folder)
        (folder / "jobs").mkdir()
        options = {"environment": QUICK_JAVA, **options}
        self.setting = Setting(f"test-{folder.name}", folder / "jobs", folder, slots, options)
        self.engine = SparkEngine(self.setting)
        self.engine.recover([])
        self._numbers = count(1)

    def job(self, run, class_name="low", **arguments):
        job = Job(f"job-{next(self._numbers)}", class_name, 0, run, arguments, attempt=1)
        self.setting.folder_of(job).mkdir()
        return job

    def start(self, run, *, drop=0.0, seed=7, **arguments):
        job = self.job(run, **arguments)
        return job, self.engine.start(job, drop, seed)

    def run(self, run, **options):
        """Run a function to its end; return its outcome and its result."""
        job, running = self.start(run, **options)
        outcome = running.wait(PATIENCE_S)
        assert outcome is not None, (self.folder / "spark.log").read_text()
        result = self.setting.result(job)
        return outcome, json.loads(result.read_text()) if result.exists() else None

    @property
    def driver_pid(self):
        return self.engine._driver.pid

    def close(self):
        self.engine.close()


@pytest.fixture(scope="module")
def new_desk():
    """Open engines in folders of their own, which are surely closed."""
    try:
        check_spark()
    except UsageError as error:
        pytest.skip(f"no Spark here: {error}")
    folders, desks = [], []

    def start(**options):
        folders.append(Path(tempfile.mkdtemp(prefix="foretell-spark-")))
        desks.append(Desk(folders[-1], **options))
        return desks[-1]

    yield start
    for desk in desks:
        desk.close()
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
