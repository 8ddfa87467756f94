"""The reset of an application: where it begins again, and everything of its own that goes."""
