"""Times on this machine: python -m mala.bench for the operator, with --models for whole models."""
