"""The hash that KubeAdmiral breaks ties with and tells changes by."""


def fnv1_32(data: bytes) -> int:
    """The FNV-1 hash, 32 bits. FNV-1a is another one: it multiplies after the exclusive or."""
    digest = 0x811C9DC5
    for byte in data:
        digest = digest * 0x01000193 & 0xFFFFFFFF ^ byte
    return digest
