"""Set up everything that Sluice's own tree needs, on a machine that has only Python 3.11 or newer.

Run by `make`, with any Python 3: a virtual environment in .venv, the locked packages (a Java is among them, for
machines that have none), the project itself (editable), and the published jars. Instant when nothing changed. An
interrupted run goes on where it was, because everything that was downloaded stays in the caches of pip and of
`sluice_jvm.jars`.

Standard library only, and no syntax that an older Python 3 would stumble over before it could be told what is missing.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

MINIMUM = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "sluice-setup.json"
INPUTS = ("requirements.lock", "pyproject.toml", "jvm/sluice_jvm/jars.py", "tools/setup.py")
JAR_SETS = ("kafka-broker", "spark-kafka")
SECONDS_BETWEEN_NEWS = 5.0
STARTED = time.time()

FIND_JAVA = """
from sluice_jvm.java import find_java
java = find_java()
print(java.version, java.executable)
"""


class SetupError(Exception):
    """What is missing, and how to get it."""


def main() -> int:
    try:
        require_python()
        if not is_up_to_date():
            set_up()
    except SetupError as error:
        sys.stderr.write(f"\n{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted. Run the same command again and it goes on where it was.\n")
        return 130
    return 0


def require_python() -> None:
    """Go on with a newer Python of the PATH when this one is too old; else say what is missing."""
    if sys.version_info < MINIMUM:
        newer = next(filter(None, map(shutil.which, ("python3.13", "python3.12", "python3.11"))), None)
        if newer is None:
            raise SetupError(
                f"Sluice needs Python {MINIMUM[0]}.{MINIMUM[1]} or newer, and {sys.executable} is "
                f"{sys.version_info[0]}.{sys.version_info[1]}. Install one, or name it: make PYTHON=/path/to/python3"
            )
        os.execv(newer, [newer, __file__])  # noqa: S606 - the same program, by a newer Python
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise SetupError(
                f"{sys.executable} lacks the module {module}. On Debian and Ubuntu: sudo apt install python3-venv"
            )


def is_up_to_date() -> bool:
    try:
        written = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return False
    return bool(written["inputs"] == digest_of_inputs() and PYTHON.exists() and Path(written["java"]).exists())


def digest_of_inputs() -> str:
    return hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in INPUTS)).hexdigest()


def set_up() -> None:
    say(f"setting up {VENV.name}")
    create_environment()
    install("Python packages", "-r", "requirements.lock")
    install("Sluice itself", "--no-deps", "--no-build-isolation", "--editable", ".")
    java = find_java()
    fetch_jars()
    train()
    stamp = STAMP.with_suffix(".new")
    stamp.write_text(json.dumps({"inputs": digest_of_inputs(), "java": java}))
    stamp.replace(STAMP)
    say("ready")


def create_environment() -> None:
    """A new environment, unless there is a whole one of a Python that is new enough."""
    check = f"import pip, sys; raise SystemExit(sys.version_info < {MINIMUM})"
    if PYTHON.exists() and run([str(PYTHON), "-c", check]).returncode == 0:
        return
    made = run([sys.executable, "-m", "venv", "--clear", str(VENV)])
    if made.returncode != 0:
        raise SetupError(f"The virtual environment could not be made:\n{made.stdout.strip()}")
    say(f"virtual environment made with Python {sys.version_info[0]}.{sys.version_info[1]}")


def install(what: str, *arguments: str) -> None:
    """Run pip, and say every few seconds what it is at."""
    started = told = time.time()
    said = []
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    command = [str(PYTHON), "-m", "pip", "install", *options, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        for line in pip.stdout or ():
            said.append(line.rstrip())
            if time.time() - told > SECONDS_BETWEEN_NEWS and is_news(line):
                told = time.time()
                say(f"{what}: {line.strip().split(' (from')[0][:90]}")
    if pip.returncode != 0:
        tail = "\n".join(said[-25:])
        raise SetupError(f"{what} could not be installed. Is the network there? pip said:\n{tail}")
    say(f"{what}: installed in {time.time() - started:.0f} s")


def is_news(line: str) -> bool:
    return line.lstrip().startswith(("Collecting", "Downloading", "Building", "Installing", "Using cached"))


def find_java() -> str:
    """The path of the Java that will be used: the machine's own, or the wheel among the packages."""
    found = run([str(PYTHON), "-c", FIND_JAVA])
    if found.returncode != 0:
        raise SetupError(f"No Java 17 or newer could be found. {found.stdout.strip()}")
    version, _, path = found.stdout.strip().partition(" ")
    say(f"Java {version}: {path}")
    return path


def fetch_jars() -> None:
    started = time.time()
    command = [str(PYTHON), "-m", "sluice_jvm.jars", *JAR_SETS]
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        raise SetupError("The jars could not be fetched; the reason stands above.")
    say(f"jars: in place after {time.time() - started:.0f} s")


def train() -> None:
    """Make Spark start faster from now on. Whatever goes wrong with it is told, and no obstacle."""
    started = time.time()
    say("letting Java record Spark's classes, so that it starts in half the time from now on")
    said = run([str(PYTHON), "-m", "sluice_jvm.training"]).stdout.strip().splitlines() or ["no class archive"]
    say(f"{said[-1]} (after {time.time() - started:.0f} s)")


def run(command: "list[str]") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def say(line: str) -> None:
    sys.stderr.write(f"[{time.time() - STARTED:5.1f} s] {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
