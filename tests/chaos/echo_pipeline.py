"""The pipeline under test: every record's id goes on as it is, and records are counted by user and by group.

A loss or a repetition shows in the echo at once, a torn state in the counts: by user within one subtopology, by group
behind a repartition topic.
"""

import sluice
from sluice import count

topology = sluice.Topology("echo")

events = topology.stream("events", key="user string", value="id bigint, team string")
events.to("echo")
events.group_by("user").aggregate("by-user", records=count()).to("user-counts")
events.group_by("team").aggregate("by-team", records=count()).to("team-counts")
