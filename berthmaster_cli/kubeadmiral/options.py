"""The options for KubeAdmiral's federations."""

from berthmaster_cli.flags import Flags, option


class FederationFlags(Flags):
    """How a federation is simulated."""

    duplicate_limits: bool = option(
        "For KubeAdmiral: minReplicas and maxReplicas limit the replicas of each cluster in mode Duplicate, as its "
        "manual says. Its scheduler ignores them.",
    )  # fmt: skip
