"""Class data archives: Spark's JVM starts in half the time when it maps its 30,000 classes instead of parsing them.

An archive belongs to one Java and one directory of jars, exactly; `sluice_jvm.training` makes it. Where there is none,
or where it doesn't fit, the JVM starts as ever.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from sluice_jvm.cache import cache_directory
from sluice_jvm.java import Java

_SILENCE = "-Xlog:cds*=off"  # an archive that doesn't fit is no error


def archives_directory() -> Path:
    return cache_directory() / "archives"


def archive_path(java: Java, jars: Path) -> Path:
    """Where the archive of the Java and the jars lies, or would lie. Names of the same places start alike."""
    release = java.home / "release"
    versions = [release.read_text() if release.exists() else "", str(jars.stat().st_mtime_ns)]
    return archives_directory() / f"{_digest(str(java.home), str(jars))}-{_digest(*versions)}.jsa"


def base_path(java: Java) -> Path | None:
    """Where the archive of Java's own classes is kept for a Java that comes without one, as the wheel's does."""
    if (java.home / "lib" / "server" / "classes.jsa").exists():
        return None
    return archives_directory() / f"base-{_digest(str(java.home), (java.home / 'release').read_text())}.jsa"


def sharing_options(java: Java, jars: Path) -> list[str]:
    """JVM options that use the archive, if there is one."""
    archive, base = archive_path(java, jars), base_path(java)
    needed = [path for path in (base, archive) if path is not None]
    if not all(path.exists() for path in needed):
        return []
    return [f"-XX:SharedArchiveFile={':'.join(map(str, needed))}", _SILENCE]


def recording_options(java: Java, archive: Path) -> list[str]:
    """JVM options that write the classes loaded until the JVM's end to the archive."""
    base = base_path(java)
    options = [f"-XX:ArchiveClassesAtExit={archive}", _SILENCE]
    return options if base is None else [f"-XX:SharedArchiveFile={base}", *options]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
