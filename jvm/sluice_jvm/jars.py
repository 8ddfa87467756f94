"""Named sets of published jars, resolved once per machine with the Ivy that PySpark carries.

No Maven, no Gradle: Ivy runs on any Java and is on the disk as soon as PySpark is. A set lies in the cache directory
(outside the tree, shared by all check-outs) under a name that changes with its artifacts. It appears there whole or not
at all; what Ivy has downloaded so far stays in Ivy's own cache, so that an interrupted download goes on where it was.

The repository is Maven Central unless the file named by SLUICE_IVY_SETTINGS (an ivysettings.xml) says otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from sluice_jvm.cache import cache_directory, locked
from sluice_jvm.java import JavaNotFoundError, find_java
from sluice_jvm.launch import java_command, spark_home
from sluice_jvm.trust import trust_options

SETTINGS_VARIABLE = "SLUICE_IVY_SETTINGS"

KAFKA_VERSION = "4.1.1"

_MARKER = "artifacts.json"
_SECONDS_BETWEEN_NEWS = 5.0
_IVY_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # it runs for seconds: start fast


class JarsNotResolvedError(RuntimeError):
    """A set of jars could not be resolved: no network, or the repository lacks one of its artifacts."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One published artifact, with or without what it depends on."""

    organisation: str
    name: str
    version: str
    with_dependencies: bool = True

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}" + ("" if self.with_dependencies else " alone")


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are used together. `title` is for people."""

    name: str
    title: str
    artifacts: tuple[Artifact, ...]

    @property
    def directory_name(self) -> str:
        digest = hashlib.sha256("\n".join(map(str, self.artifacts)).encode()).hexdigest()
        return f"{self.name}-{digest[:12]}"


BROKER = JarSet(
    "kafka-broker",
    f"Kafka broker {KAFKA_VERSION}",
    (
        Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        # What Kafka's own distribution adds, or the broker logs nothing.
        Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    ),
)

KAFKA_STREAMS = JarSet(
    "kafka-streams",
    f"Kafka Streams {KAFKA_VERSION}",
    (Artifact("org.apache.kafka", "kafka-streams", KAFKA_VERSION), Artifact("org.slf4j", "slf4j-simple", "1.7.36")),
)

SPARK_KAFKA = JarSet(
    "spark-kafka",
    "Spark's Kafka connector",
    # One by one: the connector of PySpark's own version is not published, nor is the token provider that the nearest
    # connector asks for, and everything else that they depend on is in PySpark.
    (
        Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", with_dependencies=False),
        Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", with_dependencies=False),
        Artifact("org.apache.kafka", "kafka-clients", "3.9.2", with_dependencies=False),
        Artifact("org.apache.commons", "commons-pool2", "2.13.1", with_dependencies=False),
    ),
)

ECJ = JarSet(
    "ecj",
    "Eclipse's Java compiler",
    # The last line of releases that runs on Java 17; for runtimes without javac.
    (Artifact("org.eclipse.jdt", "ecj", "3.38.0", with_dependencies=False),),
)

JAR_SETS: Mapping[str, JarSet] = {jars.name: jars for jars in (BROKER, KAFKA_STREAMS, SPARK_KAFKA, ECJ)}


def resolve(jars: JarSet) -> tuple[Path, ...]:
    """The jars of the set, downloaded when they are not here yet. Raises JarsNotResolvedError, JavaNotFoundError.

    Two processes that ask at once download once.
    """
    directory = cache_directory() / "jars" / jars.directory_name
    if found := _read(directory):
        return found
    with locked(directory.parent):  # one for all sets: they share Ivy's own cache
        if found := _read(directory):
            return found
        _download(jars, directory)
    return _read(directory)


def _read(directory: Path) -> tuple[Path, ...]:
    """The jars that the marker lists, or nothing when the set is not here whole."""
    try:
        sizes: dict[str, int] = json.loads((directory / _MARKER).read_text())["jars"]
        complete = all((directory / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return ()
    return tuple(directory / name for name in sorted(sizes)) if complete else ()


def _download(jars: JarSet, directory: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".download-", dir=directory.parent) as temporary:
        target = Path(temporary, "jars")
        target.mkdir()
        _run_ivy(jars, Path(temporary), target)
        sizes = {jar.name: jar.stat().st_size for jar in target.glob("*.jar")}
        missing = [str(wanted) for wanted in jars.artifacts if f"{wanted.name}-{wanted.version}.jar" not in sizes]
        if missing:
            raise JarsNotResolvedError(f"{jars.title}: the repository has no jar for {', '.join(missing)}.")
        (target / _MARKER).write_text(
            json.dumps({"artifacts": list(map(str, jars.artifacts)), "jars": sizes}, indent=1)
        )
        shutil.rmtree(directory, ignore_errors=True)
        target.rename(directory)


def _run_ivy(jars: JarSet, temporary: Path, target: Path) -> None:
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"), None)
    if ivy is None:
        raise JarsNotResolvedError(f"PySpark in {spark_home()} carries no Ivy; install the PySpark of the lock file.")
    description = temporary / "ivy.xml"
    description.write_text(_ivy_file(jars))
    arguments = ["-ivy", str(description), "-cache", str(cache_directory() / "ivy"), "-confs", "default"]
    arguments += ["-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]", "-types", "jar", "bundle"]
    if settings := os.environ.get(SETTINGS_VARIABLE):
        arguments += ["-settings", settings]
    java = find_java()
    options = [*_IVY_OPTIONS, *trust_options(java, cache_directory())]
    command = java_command("org.apache.ivy.Main", arguments, class_path=[ivy], options=options, java=java)
    log = temporary.parent / f"{jars.directory_name}.log"
    if not _follow(command, jars, log):
        raise JarsNotResolvedError(_why(jars, log))


def _ivy_file(jars: JarSet) -> str:
    return "\n".join(
        (
            f'<ivy-module version="2.0"><info organisation="sluice" module={quoteattr(jars.name)}/>',
            '<configurations><conf name="default"/></configurations><dependencies>',
            *map(_dependency, jars.artifacts),
            "</dependencies></ivy-module>",
        )
    )


def _dependency(wanted: Artifact) -> str:
    coordinates = f"org={quoteattr(wanted.organisation)} name={quoteattr(wanted.name)} rev={quoteattr(wanted.version)}"
    transitive = str(wanted.with_dependencies).lower()
    return f'<dependency {coordinates} conf="default->default" transitive="{transitive}"/>'


def _follow(command: list[str], jars: JarSet, log: Path) -> bool:
    """Run Ivy and say every few seconds how many jars it has downloaded."""
    started = told = time.monotonic()
    downloaded = 0
    _tell(f"{jars.title}: resolving")
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy,
        log.open("w") as file,
    ):
        for line in ivy.stdout or ():
            file.write(line)
            downloaded += "[SUCCESSFUL ]" in line and ".jar" in line
            if time.monotonic() - told > _SECONDS_BETWEEN_NEWS:
                told = time.monotonic()
                done = f"{downloaded} jars downloaded" if downloaded else "reading what it depends on"
                _tell(f"{jars.title}: {done}, {told - started:.0f} s")
    if ivy.returncode == 0:
        _tell(f"{jars.title}: ready, {time.monotonic() - started:.1f} s")
    return ivy.returncode == 0


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _why(jars: JarSet, log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    causes = [
        line.strip() for sign in ("Server access error", "Exception", "not found") for line in lines if sign in line
    ]
    cause = next(iter(causes), lines[-1].strip() if lines else "Ivy said nothing")
    return (
        f"{jars.title} could not be downloaded: {cause} (the whole log: {log}). Is the network there? "
        f"Behind a mirror, name an ivysettings.xml in {SETTINGS_VARIABLE}. "
        "Run the same command again and it goes on where it was."
    )


def main(names: Sequence[str]) -> int:
    """Resolve the named sets, all when none is named, and print their jars. Returns the exit status."""
    try:
        for name in names or JAR_SETS:
            sys.stdout.writelines(f"{jar}\n" for jar in resolve(JAR_SETS[name]))
    except (JarsNotResolvedError, JavaNotFoundError) as error:
        _tell(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
