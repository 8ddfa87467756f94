"""Which failures of a query are the fault of its rows: what user code raises, as against a broken engine.

Spark says most of it itself, as PySparkException. What a Java function throws that Spark merely calls (`java_method`, a
UDF of a jar) arrives raw; it counts as a row's if what it goes back to is a RuntimeException. An Error (out of memory),
an I/O error or a lost executor is nobody's row: it ends the loop, and the process is started again.
"""

from __future__ import annotations

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException

FAILURES = (PySparkException, Py4JJavaError)
"""What a query may raise."""

_LONGEST = 500


def is_of_rows(error: BaseException) -> bool:
    """Whether leaving rows out can help."""
    return isinstance(error, PySparkException) or (isinstance(error, Py4JJavaError) and _is_runtime(_root(error)))


def reason(error: BaseException) -> str:
    """The line that says it: the first, but for a Python function's traceback, which ends with what it raised."""
    if isinstance(error, Py4JJavaError):
        return str(_root(error).toString())[:_LONGEST]
    lines = str(error).strip().splitlines()
    return lines[-1 if isinstance(error, PythonException) else 0][:_LONGEST]


def _root(error: Py4JJavaError) -> JavaObject:
    found = error.java_exception
    while (cause := found.getCause()) is not None:
        found = cause
    return found


def _is_runtime(throwable: JavaObject) -> bool:
    kind = throwable.getClass()
    while kind is not None and kind.getName() != "java.lang.RuntimeException":
        kind = kind.getSuperclass()
    return kind is not None
