"""The commands for KubeAdmiral's federations."""
