"""What is said where Spark cannot be started."""

import pytest

from foretell import UsageError
from foretell.adapters.dispatcher.engines import Setting
from foretell.adapters.dispatcher.engines.spark import SparkEngine


@pytest.fixture
def setting(tmp_path):
    (tmp_path / "jobs").mkdir()
    return Setting("none", tmp_path / "jobs", tmp_path)


def test_missing_java_is_said_with_what_to_install(setting, monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"Java 17 .*openjdk-17-jre-headless"):
        SparkEngine(setting)


@pytest.mark.parametrize(
    ("script", "match"),
    [("echo 'openjdk version \"1.8.0_292\"' >&2", "is Java 8"), ("exit 3", "does not start")],
)
def test_java_that_is_too_old_or_broken_is_refused(setting, monkeypatch, tmp_path, script, match):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=match):
        SparkEngine(setting)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="no Java there"):
        SparkEngine(setting)


def test_unknown_setting_is_refused(setting):
    with pytest.raises(UsageError, match="mastre"):
        SparkEngine(Setting("none", setting.jobs, options={"mastre": "local"}))
