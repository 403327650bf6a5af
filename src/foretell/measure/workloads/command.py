"""The command workload: any program, a template for its arguments, and numbers from its output."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import IO, Any

import pydantic

from foretell.errors import UsageError, suggest
from foretell.measure.workloads._base import Numbers, Options, RunFailedError, Watch, Workload

_MOST_OUTPUT = 4_000_000  # characters that are searched for numbers
_MOST_REASON = 300


class CommandOptions(Options):
    """A program and what its output tells.

    Attributes
    ----------
    run
        The program and its arguments, with parameters in braces; a text is split as a shell would,
        but no shell runs it.
    prepare
        A command that is run before, and not measured; ``{scratch}`` is a folder for its files.
    extract
        Columns and the regular expressions whose first group is their number.
    ok_exit
        Exit statuses that are no failure.
    folder
        Where it runs; relative to the sweep file.
    env
        Environment variables, in which parameters may stand, too.
    """

    run: str | list[str]
    prepare: str | list[str] | None = None
    extract: dict[str, str] = pydantic.Field(default={})
    ok_exit: list[int] = pydantic.Field(default=[0])
    folder: str = "."
    env: dict[str, str] = pydantic.Field(default={})

    @pydantic.field_validator("extract")
    @classmethod
    def _have_a_group(cls, value: dict[str, str]) -> dict[str, str]:
        for name, pattern in value.items():
            try:
                n_groups = re.compile(pattern).groups
            except re.error as error:
                raise ValueError(f"{name} is no regular expression: {error}") from None
            if n_groups < 1:
                raise ValueError(f"{name} needs a group in parentheses around its number")
        return value


class CommandWorkload(Workload):
    """Run a program once per run."""

    options: CommandOptions
    options_class = CommandOptions
    shares_process = True
    is_job = False
    times_itself = True

    def check(self, names: Sequence[str]) -> None:
        """Refuse templates that name no parameter, and programs that are not there."""
        o = self.options
        texts = [*_words(o.run), *_words(o.prepare or []), *o.env.values()]
        for name in (n for text in texts for n in _fields(text)):
            if name not in {*names, "scratch"}:
                raise UsageError(
                    f"workload: {{{name}}} is no parameter of this sweep. {suggest(name, names)} "
                    "A brace itself is written {{."
                )
        self._check_program(_words(o.run))
        if o.prepare is not None:
            self._check_program(_words(o.prepare))

    def _check_program(self, words: list[str]) -> None:
        if not words:
            raise UsageError("workload.run: must name a program")
        program = words[0]
        if "{" not in program and shutil.which(program, path=_path(self._folder)) is None:
            raise UsageError(
                f"workload.run: there is no program '{program}' on the PATH or in "
                f"{self._folder}; check its name, or give its whole path"
            )

    @property
    def _folder(self) -> Path:
        return (self.folder / self.options.folder).resolve()

    def run(self, configuration: Mapping[str, Any], watch: Watch) -> Numbers | None:
        """Run the program and read its output."""
        o = self.options
        configuration = {**configuration, "scratch": watch.scratch}
        if o.prepare is not None:
            self._prepare(configuration)
        with tempfile.TemporaryFile() as output:
            with watch.job():
                status = self._execute(o.run, configuration, output, watch)
            output.seek(max(0, output.seek(0, os.SEEK_END) - _MOST_OUTPUT))
            text = output.read().decode(errors="replace")
        if status not in o.ok_exit:
            raise RunFailedError(f"{_told(status)}{_last_line(text)}")
        return {name: _number(name, pattern, text) for name, pattern in o.extract.items()}

    def _prepare(self, configuration: Mapping[str, Any]) -> None:
        assert self.options.prepare is not None
        with tempfile.TemporaryFile() as output:
            status = self._execute(self.options.prepare, configuration, output, Watch())
            if status:
                output.seek(0)
                text = output.read(_MOST_OUTPUT).decode(errors="replace")
                raise RunFailedError(f"preparing: {_told(status)}{_last_line(text)}")

    def _execute(
        self,
        template: str | list[str],
        configuration: Mapping[str, Any],
        output: IO[bytes],
        watch: Watch,
    ) -> int:
        values = {name: _text(value) for name, value in configuration.items()}
        words = [word.format_map(values) for word in _words(template)]
        own = {name: text.format_map(values) for name, text in self.options.env.items()}
        environment = {**os.environ, "PATH": _path(self._folder), **own}
        try:
            process = subprocess.Popen(  # noqa: S603 - running the user's program is the purpose
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=environment,
            )
        except OSError as error:
            raise RunFailedError(f"{words[0]} cannot be run: {error.strerror}") from None
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        watch.child_peak_bytes = max(watch.child_peak_bytes, usage.ru_maxrss * 1024)
        return process.returncode


def _path(folder: Path) -> str:
    return f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{folder}"


def _words(template: str | list[str]) -> list[str]:
    """Split a command before parameters are filled in: a value is one word, whatever it holds."""
    if isinstance(template, list):
        return template
    try:
        return shlex.split(template)
    except ValueError as error:
        raise UsageError(f"workload.run: {error} in {template}") from None


def _fields(text: str) -> list[str]:
    try:
        found = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise UsageError(f"workload: {error} in '{text}'; a brace itself is written {{{{") from None
    for name in found:
        if not name.isidentifier():
            raise UsageError(f"workload: {{{name}}} is no name of a parameter")
    return found


def _text(value: Any) -> str:
    """Write a value as people do: 0.5, 4, true."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _told(status: int) -> str:
    if status < 0:
        import signal

        try:
            return f"it was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"it was ended by signal {-status}"
    return f"it exited with status {status}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1][:_MOST_REASON]}" if lines else ""


def _number(name: str, pattern: str, text: str) -> float:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise RunFailedError(f"its output has no {name}: nothing matches {pattern}")
    try:
        return float(found.group(1).replace(",", ""))
    except (ValueError, AttributeError):
        raise RunFailedError(f"its output has no number for {name}: {found.group(0)!r}") from None
