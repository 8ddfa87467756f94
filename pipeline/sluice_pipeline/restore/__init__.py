"""Reading changelogs into stores: standbys, warm-ups, and the last stretch before a task runs.

It happens in restorer processes of their own, which need no JVM and keep their work off the worker's interpreter
lock. A restorer owns the stores of the tasks that it was given until it has closed them.
"""
