"""The metrics of the extender's handlers, recorded for tests."""


class RecordedMetrics:
    """See ``extender.protocols.services.ServiceMetrics``.

    Attributes:
        decisions: the labels of each decision.
        rejections: the number of rejected clusters by plugin.
        doubts: the labels of each answer in doubt.
    """

    def __init__(self) -> None:
        self.decisions: list[tuple[str, ...]] = []
        self.rejections: dict[str, int] = {}
        self.doubts: list[tuple[str, ...]] = []

    def decided(self, *labels: str) -> None:
        self.decisions.append(labels)

    def took(self, *_: object) -> None:
        pass

    def rejected(self, plugin: str, clusters: int) -> None:
        self.rejections[plugin] = self.rejections.get(plugin, 0) + clusters

    def doubted(self, *labels: str) -> None:
        self.doubts.append(labels)
