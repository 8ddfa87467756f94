"""`python -m sluice_cli` is `sluice`."""

import sys

from sluice_cli.main import main

sys.exit(main())
