"""The command workload: any program, a template for its arguments, and numbers in its output."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from string import Formatter
from typing import IO, Any

import pydantic

from foretell.errors import UsageError, suggest
from foretell.measure.running.printed import Printed
from foretell.measure.workloads._base import Numbers, Options, RunFailedError, Watch, Workload

_MOST_OUTPUT = 4_000_000  # bytes that are searched for numbers
_MOST_SEARCH_S = 10.0
_MOST_REASON, _MOST_LOGGED = 300, 4000
#: Signs that only a shell understands.
_SHELL = re.compile(r"[|&;<>]+")

_WITH_COMMAS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


class CommandOptions(Options):
    """A program, and the numbers in its output.

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
        Exit statuses that do not count as a failure.
    folder
        Where it runs; relative to the sweep file.
    env
        Environment variables, which may have parameters in braces, too.
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
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(f"{name} is not a regular expression: {error}") from None
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
        """Refuse templates with unknown parameters, and programs that do not exist."""
        from foretell.measure.sweep import reserved_names  # which knows all workloads

        o = self.options
        for name in self._used():
            if name not in {*names, "scratch"}:
                raise UsageError(
                    f"workload: {{{name}}} is not a parameter of this sweep. "
                    f"{suggest(name, names)} To write a brace itself, double it: {{{{."
                )
        if not self._folder.is_dir():
            raise UsageError(f"workload.folder: there is no directory {self._folder}")
        taken = {*names, *reserved_names()}
        for name in o.extract:
            if name in taken:
                raise UsageError(f"workload.extract: '{name}' is the name of another column")
        for template in (o.run, o.prepare):
            if template is not None:
                _refuse_shell(template)
                self._check_program(_words(template))

    def ignored(self, names: Sequence[str]) -> list[str]:
        """Return the parameters that no template uses."""
        used = self._used()
        return [name for name in names if name not in used]

    def _used(self) -> list[str]:
        o = self.options
        texts = [*_words(o.run), *_words(o.prepare or []), *o.env.values()]
        return [name for text in texts for name in _fields(text)]

    def _check_program(self, words: list[str]) -> None:
        if not words:
            raise UsageError("workload.run: must name a program")
        program = words[0]
        place = str(self._folder / program) if os.sep in program else program
        if "{" not in program and shutil.which(place, path=_path(self._folder)) is None:
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
            status, text = self._execute(o.prepare, configuration, Watch())
            if status:
                raise RunFailedError(f"preparing: {_ending(status)}{_last_line(text)}")
        status, text = self._execute(o.run, configuration, watch)
        try:
            if status not in o.ok_exit:
                raise RunFailedError(f"{_ending(status)}{_last_line(text)}")
            return _numbers(o.extract, text)
        except RunFailedError:
            sys.stdout.write(text[-_MOST_LOGGED:])  # for the log
            raise

    def _execute(
        self, template: str | list[str], configuration: Mapping[str, Any], watch: Watch
    ) -> tuple[int, str]:
        """Run a command as the job of a watch; return its exit status, and what it printed."""
        with closing(Printed(_MOST_OUTPUT)) as printed:
            with printed.trimmed(), watch.job():
                status = self._run(template, configuration, printed.file, watch)
            return status, printed.end(_MOST_OUTPUT)

    def _run(
        self,
        template: str | list[str],
        configuration: Mapping[str, Any],
        output: IO[bytes],
        watch: Watch,
    ) -> int:
        # Booleans in lower case; numbers stay numbers, which {n:05d} needs.
        values = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in configuration.items()
        }
        try:
            words = [word.format_map(values) for word in _words(template)]
            own = {name: text.format_map(values) for name, text in self.options.env.items()}
        except (ValueError, TypeError) as error:
            raise RunFailedError(f"the template cannot be filled in: {error}") from None
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
    """Split a command before parameters are filled in, so that each value stays one word."""
    if isinstance(template, list):
        return template
    try:
        return shlex.split(template)
    except ValueError as error:
        raise UsageError(f"workload.run: {error} in {template}") from None


def _refuse_shell(template: str | list[str]) -> None:
    """Refuse a text that is meant for a shell; quoted signs and lists are passed on as they are."""
    if isinstance(template, list):
        return
    unescaped = re.sub(r"\\.", "_", template)
    words = shlex.shlex(unescaped, posix=False, punctuation_chars=True)
    words.whitespace_split = True
    for sign in filter(_SHELL.fullmatch, words):
        raise UsageError(
            f"workload: no shell runs '{template}', so the program would get {sign} as an "
            'argument; write ["sh", "-c", "..."], or quote it if the program is to get it'
        )


def _fields(text: str) -> list[str]:
    try:
        parsed = list(Formatter().parse(text))
        found = [name for _, name, _, _ in parsed if name is not None]
        found += [name for _, _, form, _ in parsed if form for name in _fields(form)]
    except ValueError as error:
        raise UsageError(
            f"workload: {error} in '{text}'; to write a brace itself, double it: {{{{"
        ) from None
    for name in found:
        if not name.isidentifier():
            raise UsageError(f"workload: {{{name}}} is not the name of a parameter")
    return found


def _ending(status: int) -> str:
    if status < 0:
        try:
            return f"it was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"it was ended by signal {-status}"
    return f"it exited with status {status}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1][:_MOST_REASON]}" if lines else ""


def _numbers(patterns: Mapping[str, str], text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, pattern in patterns.items():
        too_slow = (
            f"looking for {name} in its output takes more than {_MOST_SEARCH_S:g} s: {pattern} has "
            "too many ways to match; write it without repeats inside of repeats, such as (a+)+"
        )
        with _limited(_MOST_SEARCH_S, too_slow):
            found[name] = _number(name, pattern, text)
    return found


@contextmanager
def _limited(seconds: float, otherwise: str) -> Iterator[None]:
    """Raise RunFailedError if what is done inside takes too long.

    A regular expression may take longer than the universe is old, and looks for signals meanwhile.
    """

    def end(*_: object) -> None:
        raise RunFailedError(otherwise)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _number(name: str, pattern: str, text: str) -> float:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise RunFailedError(f"its output has no {name}: nothing matches {pattern}")
    text = found.group(1) or ""
    # 1,234,567.8 is one number; 1,5 may be one of several, depending on who wrote it.
    plain = text.replace(",", "") if _WITH_COMMAS.fullmatch(text.strip()) else text
    try:
        number = float(plain)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RunFailedError(f"its output has no number for {name}: {found.group(0)!r}")
    return number
