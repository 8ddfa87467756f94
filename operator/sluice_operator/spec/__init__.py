"""The StreamsApp: its typed spec and status, and the CustomResourceDefinition that is generated from them."""
