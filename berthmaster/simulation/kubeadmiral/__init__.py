"""Simulation of KubeAdmiral's federations."""
