"""HighAvailability beside Kafka's own class, live: the same decision on every seeded case, follow-up flag included.

`ORACLE_CASES` and `ORACLE_SEED` choose how many and which; a seed is one case, so a mismatch is made again by
`ORACLE_SEED=<seed> ORACLE_CASES=1`.
"""

from __future__ import annotations

import json
import os

import pytest
from assignor_cases import a_case, our_answer

from sluice_devkit.kafka_assignor_process import KafkaAssignorProcess

CASES = int(os.environ.get("ORACLE_CASES", "20000"))
SEED = int(os.environ.get("ORACLE_SEED", "1"))
BATCH = 1000
MISMATCHES_TOLD = 3


@pytest.mark.parametrize("first", range(SEED, SEED + CASES, BATCH))
def test_decides_as_kafka_does(first: int, kafka_assignor: KafkaAssignorProcess):
    seeds = range(first, min(first + BATCH, SEED + CASES))
    mismatches = [told for seed in seeds if (told := mismatch(seed, kafka_assignor))]

    assert not mismatches, f"{len(mismatches)} of {len(seeds)} differ:\n" + "\n".join(mismatches[:MISMATCHES_TOLD])


def mismatch(seed: int, kafka_assignor: KafkaAssignorProcess) -> str | None:
    """What Kafka and we say, when it is not the same."""
    case = a_case(seed)
    kafka_assignor.ask(case)
    ours, kafkas = our_answer(case), kafka_assignor.answer()
    if ours == kafkas:
        return None
    return f"seed {seed}\nours   {json.dumps(ours)}\nKafka's {json.dumps(kafkas)}\nconfig {json.dumps(case['config'])}"
