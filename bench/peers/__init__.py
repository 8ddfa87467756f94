"""The engines that Sluice is compared with, as their users would run them."""
