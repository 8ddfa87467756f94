"""Finding the topology that `module:attribute` names. Every mistake there is the person's, so none is a traceback."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from sluice_pipeline.dsl.errors import PipelineNotFoundError, TopologyError
from sluice_pipeline.dsl.topology import Topology


def load_topology(pipeline: str) -> Topology:
    """Import the module (the working directory counts) and return its topology.

    Raises PipelineNotFoundError, and TopologyError when the topology itself has a mistake.
    """
    name, separator, attribute = pipeline.partition(":")
    if not (separator and name and attribute):
        raise PipelineNotFoundError(
            f"pipeline {pipeline!r}", "it is not of the form module:attribute, as in orders.pipeline:topology"
        )
    found = getattr(_import(pipeline, name), attribute, None)
    if isinstance(found, Topology):
        return found
    if found is None:
        raise PipelineNotFoundError(pipeline, f"module {name} has no {attribute!r}; {_suggestion(name)}")
    raise PipelineNotFoundError(
        pipeline, f"{attribute!r} is a {type(found).__name__} and not a sluice.Topology; {_suggestion(name)}"
    )


def _import(pipeline: str, name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except TopologyError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise PipelineNotFoundError(
                pipeline, f"there is no module {error.name!r} in {here} or where Python looks for modules"
            ) from None
        raise _broken(pipeline, name, error) from None
    except (Exception, SystemExit) as error:
        raise _broken(pipeline, name, error) from None


def _broken(pipeline: str, name: str, error: BaseException) -> PipelineNotFoundError:
    return PipelineNotFoundError(
        pipeline, f"module {name} can't be imported: {type(error).__name__}: {error} ({_line(error)})"
    )


def _line(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{Path(error.filename).name}:{error.lineno}"
    return _deepest_line(error)


def _deepest_line(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


def _suggestion(name: str) -> str:
    topologies = sorted(key for key, value in vars(sys.modules[name]).items() if isinstance(value, Topology))
    if topologies:
        return "it has " + ", ".join(f"{name}:{key}" for key in topologies)
    return 'it has no topology at all; write: topology = sluice.Topology("…")'
