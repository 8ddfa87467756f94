"""The pods and volumes of an application: what they should be, and what to do next. Pure."""
